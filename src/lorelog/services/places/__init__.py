"""Where memories belong and where files are: the project, the workspace, and the roots to index.

Not for reading or indexing file contents.
"""
