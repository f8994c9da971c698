"""The pages at the admin port: plain HTML, CSS and JavaScript, as files. ``control`` hands them out."""
