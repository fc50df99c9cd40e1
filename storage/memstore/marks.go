package memstore

import (
	"hash/maphash"
	"strings"

	"github.com/fencegate/fencegate/fencing"
)

// marks is a map of resources to marks that can only grow: a mark is for ever. A Go map would
// take twice as much for each, or three times just after it has grown. Here an entry lies in a
// chunk that is never moved, and the table that finds it has 4 bytes for each place.
type marks struct {
	seed   maphash.Seed
	table  []uint32 // open addressing: 1 + the number of an entry; 0: free. Its length is a power of two
	chunks []*[chunkLen]entry
	n      int // entries
}

const chunkLen = 1024 // 48 KiB: whole pages of the heap, so that nothing is lost between chunks

// entry is 48 bytes.
type entry struct {
	name   string
	number int64
	grant  packed
	flags  uint8
}

const (
	retired uint8 = 1 << iota
	granted       // else the grant id is empty
)

func newMarks() marks { return marks{seed: maphash.MakeSeed(), table: make([]uint32, 8)} }

func (m *marks) at(i int) *entry { return &m.chunks[i/chunkLen][i%chunkLen] }

// find returns a name's entry, or nil and the free place for it in the table.
func (m *marks) find(name string) (e *entry, place int) {
	mask := len(m.table) - 1
	for place = int(maphash.String(m.seed, name)) & mask; m.table[place] != 0; place = (place + 1) & mask { //nolint:gosec // bits are bits
		if e := m.at(int(m.table[place] - 1)); e.name == name {
			return e, place
		}
	}
	return nil, place
}

// get returns a resource's mark.
func (m *marks) get(name string) fencing.Mark {
	e, _ := m.find(name)
	if e == nil {
		return fencing.Absent(0)
	}
	return e.mark()
}

func (e *entry) mark() fencing.Mark {
	mark := fencing.Mark{Number: e.number, Retired: e.flags&retired != 0}
	if e.flags&granted != 0 {
		mark.Grant = e.grant.unpack()
	}
	return mark
}

// set writes a resource's mark. A grant id that is none is an error.
func (m *marks) set(name string, mark fencing.Mark) error {
	var flags uint8
	var grant packed
	if mark.Retired {
		flags |= retired
	}
	if mark.Grant != "" {
		var ok bool
		if grant, ok = pack(mark.Grant); !ok {
			return &fencing.InvalidError{What: "grant id", Allowed: "26 characters A-Z, 2-7"}
		}
		flags |= granted
	}
	e, place := m.find(name)
	if e == nil {
		e = m.add(strings.Clone(name), place) // it may be a piece of something large
	}
	e.number, e.grant, e.flags = mark.Number, grant, flags
	return nil
}

func (m *marks) add(name string, place int) *entry {
	if m.n%chunkLen == 0 {
		m.chunks = append(m.chunks, new([chunkLen]entry))
	}
	m.n++
	e := m.at(m.n - 1)
	e.name = name
	m.table[place] = uint32(m.n) //nolint:gosec // there is no memory for more than 2^32
	if m.n > len(m.table)/4*3 {
		m.grow()
	}
	return e
}

func (m *marks) grow() {
	m.table = make([]uint32, 2*len(m.table))
	for i := range m.n {
		_, place := m.find(m.at(i).name)
		m.table[place] = uint32(i + 1)
	}
}

// own returns the copy of a name that its mark has, or a new one where there is no mark.
func (m *marks) own(name string) string {
	if e, _ := m.find(name); e != nil {
		return e.name
	}
	return strings.Clone(name)
}

// retire retires the marks of a chunk, and returns how many were not retired before.
func (m *marks) retire(chunk int) (n int) {
	first := chunk * chunkLen
	for i := first; i < min(first+chunkLen, m.n); i++ {
		if e := m.at(i); e.flags&retired == 0 {
			e.grant, e.flags = packed{}, retired
			n++
		}
	}
	return n
}

// packed is a grant id, 26 characters of 5 bits.
type packed [17]byte

func pack(grant string) (p packed, ok bool) {
	if len(grant) != fencing.GrantLen {
		return p, false
	}
	for i := range len(grant) {
		var five uint16
		switch c := grant[i]; {
		case c >= 'A' && c <= 'Z':
			five = uint16(c - 'A')
		case c >= '2' && c <= '7':
			five = uint16(c-'2') + 26
		default:
			return p, false
		}
		at := i * 5
		bits := five << (11 - at%8) // from the left of the two bytes that it may touch
		p[at/8] |= byte(bits >> 8)
		if low := byte(bits & 0xff); low != 0 {
			p[at/8+1] |= low
		}
	}
	return p, true
}

func (p packed) unpack() string {
	var grant [fencing.GrantLen]byte
	for i := range grant {
		at := i * 5
		bits := uint16(p[at/8]) << 8
		if at/8+1 < len(p) {
			bits |= uint16(p[at/8+1])
		}
		grant[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[bits>>(11-at%8)&31]
	}
	return string(grant[:])
}
