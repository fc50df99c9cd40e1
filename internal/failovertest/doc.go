// Package failovertest has no code of its own: its tests let servers die, be replaced by their
// standbys and replicas, and come back with older data, under load, and look whether
// anything acknowledged is lost, and whether anybody writes from a read that no longer exists.
//
// Every value says how many writes it stands for, and which write it is; every write says
// which one its writer had read. So the record at the end leads back to the first write: what
// was acknowledged and is not on this way was lost; what was refused or failed and is on it
// had an effect. And a record's version, which the store counts by itself, is the number
// of writes that it has seen: one that differs from what the value says was written from a
// read that this store never gave.
package failovertest
