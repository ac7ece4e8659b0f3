"""Run artifacts in processes of their own: named arrays in, named arrays out."""
