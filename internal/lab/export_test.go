package lab

// LoadChapters reads chapters from a folder of the test's own.
var LoadChapters = loadChapters
