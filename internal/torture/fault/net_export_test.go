package fault

// Repeatable is repeatable.
var Repeatable = repeatable
