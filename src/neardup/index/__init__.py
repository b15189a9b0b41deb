"""The online index: is this new document a copy of something that came before?"""
