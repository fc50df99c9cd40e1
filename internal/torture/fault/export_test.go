package fault

// Repeatable is repeatable.
var Repeatable = repeatable

// Herd is herd.
var Herd = herd

// PauseInTransaction is pauseInTransaction.
var PauseInTransaction = pauseInTransaction
