"""What tests of several rooms share: engines to run, corpora, services, kills."""
