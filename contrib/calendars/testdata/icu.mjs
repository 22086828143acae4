// Prints what ICU knows of each calendar, one line for a year: the calendar, the year, its first day, the
// number of its leap month or 0, and the length of each month: "-" for 29 days, "+" for 30, "*" for 31,
// and the digit for 5 and 6.
//
//	node testdata/icu.mjs >testdata/icu.txt

const day = 86_400_000;
const lengths = { 5: '5', 6: '6', 29: '-', 30: '+', 31: '*' };
const calendars = {
	'chinese': ['1899-01-01', '2101-03-01'],
	'dangi': ['1899-01-01', '2101-03-01'],
	'hebrew': ['1899-01-01', '2102-01-01'],
	'islamic-umalqura': ['1882-11-01', '2175-01-01'],
	'islamic-civil': ['1899-01-01', '2102-01-01'],
	'islamic-tbla': ['1899-01-01', '2102-01-01'],
	'persian': ['1899-01-01', '2102-01-01'],
	'ethiopic': ['1899-01-01', '2102-01-01'],
};

// read returns the year, the month and the day of an instant, as ICU writes them.
function read(format, at) {
	const parts = {};
	for (const { type, value } of format.formatToParts(at)) parts[type] = value;
	return { year: Number(parts.relatedYear ?? parts.year), month: parts.month, day: Number(parts.day) };
}

function years(calendar, from, until) {
	const format = new Intl.DateTimeFormat(`en-u-ca-${calendar}-nu-latn`, { timeZone: 'UTC', year: 'numeric', month: 'long', day: 'numeric' });
	if (format.resolvedOptions().calendar !== calendar) throw new Error(`ICU has no calendar ${calendar}`);
	const found = [];
	let last = read(format, Date.parse(from));
	for (let at = Date.parse(from) + day; at < Date.parse(until); at += day) {
		const now = read(format, at);
		if (now.year !== last.year) found.push({ year: now.year, first: new Date(at).toISOString().slice(0, 10), months: [] });
		if (now.day === 1 && found.length) found.at(-1).months.push({ name: now.month, days: 0 });
		else if (now.day !== 1 && (now.day !== last.day + 1 || now.month !== last.month || now.year !== last.year)) throw new Error(`${calendar}: ${JSON.stringify(now)} after ${JSON.stringify(last)}`);
		if (found.length) found.at(-1).months.at(-1).days++;
		last = now;
	}
	return found.slice(0, -1); // the last year is not complete
}

console.log(`# By testdata/icu.mjs, with ICU ${process.versions.icu} and CLDR ${process.versions.cldr} of Node ${process.versions.node}.`);
for (const [calendar, [from, until]] of Object.entries(calendars)) {
	for (const { year, first, months } of years(calendar, from, until)) {
		const leap = months.findIndex(({ name }) => /bis$|^Adar I$/.test(name));
		console.log(calendar, year, first, Math.max(leap, 0), months.map(({ days }) => lengths[days] ?? `(${days})`).join(''));
	}
}
