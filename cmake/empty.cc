// A folder without sources yet still makes a library.
