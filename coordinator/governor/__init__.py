"""The governor of a study's runs in the cloud: which run is active, with how many functions and dollars."""
