"""What the files of an export hold, read without the runtimes."""
