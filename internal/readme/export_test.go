package readme

// LeftOver is how long what runs in the background is waited for.
var LeftOver = &leftOver
