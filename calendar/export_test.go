package calendar

// InZone lets tests ask a rule for its slots as Next does.
func InZone(r Recurrence, z Timezone, p Policies) Recurrence { return inZone(r, z, p) }

// WithoutInterval lets tests compare the slot of a Within with one that was moved out of it.
func (s Slot) WithoutInterval() Slot {
	s.open = 0
	return s
}
