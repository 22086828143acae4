package calendar

// InZone lets tests ask a rule for its slots as Next does.
func InZone(r Recurrence, z Timezone, p Policies) Recurrence { return inZone(r, z, p) }
