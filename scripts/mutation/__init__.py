"""Random mutations of the code: which of them does a test notice?"""
