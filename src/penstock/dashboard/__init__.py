"""The dashboard's files, handed out by the controller on the admin port: no build step, no foreign host."""
