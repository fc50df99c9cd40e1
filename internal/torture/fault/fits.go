package fault

import "github.com/fencegate/fencegate/internal/torture/rig"

// What faults ask of a rig. Every fault that is not about the lock or the store fits all.

func anywhere(rig.Spec) bool { return true }

func lockInRedis(s rig.Spec) bool  { return s.Lock == "redis" }
func storeInRedis(s rig.Spec) bool { return s.Store == "redis" }
func inRedis(s rig.Spec) bool      { return lockInRedis(s) || storeInRedis(s) }

func lockInPostgres(s rig.Spec) bool  { return s.Lock == "postgres" || s.Lock == "rowlock" }
func storeInPostgres(s rig.Spec) bool { return s.Store == "postgres" }
func inPostgres(s rig.Spec) bool      { return lockInPostgres(s) || storeInPostgres(s) }

func withRedlock(s rig.Spec) bool  { return s.Lock == "redlock" }
func withGateways(s rig.Spec) bool { return s.Gateways > 0 }
func withTwoGateways(s rig.Spec) bool {
	return s.Gateways > 1
}
