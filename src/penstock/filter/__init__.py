"""Who wants which event: filters as Knative writes them, checked here and compiled to Spark columns."""
