// Prints how ICU writes dates of other calendars, without eras and names of years.
//
//	node testdata/dates.mjs >testdata/dates.txt     # a day in each month, which the tests compare
//	node testdata/dates.mjs months                  # the rows of months.txt

const day = 86_400_000;
const calendars = { // where a search for the next new year begins, and how many years it takes: one has a leap month, if any has
	'chinese': ['2025-01-01', 1], 'dangi': ['2025-01-01', 1], 'hebrew': ['2023-09-01', 2], 'islamic-umalqura': ['2025-06-01', 1],
	'islamic-civil': ['2025-06-01', 1], 'persian': ['2025-03-01', 1], 'ethiopic': ['2026-09-01', 1],
};
const locales = 'am ar ar-SA bg cs da de de-AT el en en-CA en-GB es fa fa-AF fi fr he hr hu it ja ko nb nl no pl pt ro ru sk sv tr uk vi zh zh-Hant'.split(' ');
const long = { year: 'numeric', month: 'long', day: 'numeric' };
const names = { day: 'D', month: 'M', year: 'Y', relatedYear: 'Y' };
const lunar = (calendar) => calendar === 'chinese' || calendar === 'dangi';

// read returns the pattern of a date, in which D, M and Y stand for its day, month and year, and those three.
function read(locale, calendar, at, options = long) {
	const format = new Intl.DateTimeFormat(`${locale}-u-ca-${calendar}`, { timeZone: 'UTC', ...options });
	if (format.resolvedOptions().calendar !== calendar) throw new Error(`ICU has no calendar ${calendar}`);
	const found = { pattern: '' };
	for (const { type, value } of format.formatToParts(at)) {
		if (type in names) found[names[type]] = value;
		if (type !== 'era' && type !== 'yearName') found.pattern += names[type] ?? value;
	}
	found.D = found.D.replace(/^0/, '');
	found.M = found.M.replace(/^0/, '');
	found.pattern = found.pattern.replace(/\(년?\)/, '').replace('  ', ' ').trim();
	return found;
}

// write returns what the module writes. CLDR has long dates by the Chinese calendar in East Asia only. Other languages write
// them as they write Gregorian dates.
function write(locale, calendar, at) {
	if (locale.startsWith('zh') && lunar(calendar)) { // days are 初一 to 三十
		return { ...read('zh', calendar, at, { dateStyle: 'long' }), M: read(locale, calendar, at).M };
	}
	if (locale === 'vi' && !lunar(calendar)) return read(locale, calendar, at, { dateStyle: 'long' });
	const found = read(locale, calendar, at);
	found.Y ??= read('en', calendar, at).Y; // German and Portuguese dates have the name of a year only
	if (lunar(calendar) && !['ja', 'ko', 'vi'].includes(locale)) found.pattern = read(locale, 'gregory', at).pattern;
	if (locale.startsWith('en')) found.M = found.M.replace(/(.*)bis$/, 'Leap $1'); // the only one that the module has of its own
	return found;
}

const text = ({ pattern, ...values }) => pattern.replace(/[DMY]/g, (name) => values[name]);

// sample is the day of each month: they have all forms of a day in Chinese.
const sample = [30, 1, 2, 10, 11, 12, 19, 20, 21, 28, 29, 9, 5];

// days returns a day of each month.
function days(calendar) {
	const [from, years] = calendars[calendar], found = [];
	for (let at = Date.parse(from), first, year, month, leap; ; at += day) {
		const now = read('en', calendar, at);
		if (year !== undefined && now.Y !== year) {
			if (first && now.Y - first >= years) return found;
			first ??= now.Y;
			month = leap = 0;
		}
		year = now.Y;
		if (!first) continue;
		if (now.D === '1') month++;
		if (now.D === '1' && /bis$|^Adar I$/.test(now.M)) leap = month;
		if (now.D !== String(sample[month - 1])) continue;
		const number = leap && month >= leap ? month - 1 : month;
		const code = String(number).padStart(2, '0') + (month === leap ? 'L' : '');
		found.push({ at, month, code, year, day: `${year}-${code}-${now.D.padStart(2, '0')}` });
	}
}

const by = Object.fromEntries(Object.keys(calendars).map((calendar) => [calendar, days(calendar)]));
if (process.argv[2] === 'months') {
	months();
} else {
	console.log(`# By testdata/dates.mjs, with ICU ${process.versions.icu} and CLDR ${process.versions.cldr} of Node ${process.versions.node}.`);
	for (const [calendar, all] of Object.entries(by)) {
		console.log([calendar, '', ...all.map(({ at, day }) => new Date(at).toISOString().slice(0, 10) + '=' + day)].join('|'));
		for (const locale of locales) console.log([calendar, locale, ...all.map(({ at }) => text(write(locale, calendar, at)))].join('|'));
	}
}

// months prints the rows, each for the locales that have the same.
function months() {
	const parent = (locale) => (locale === 'zh-Hant' || !locale.includes('-') ? 'und' : locale.split('-')[0]);
	const rows = new Map();
	for (const [calendar, all] of Object.entries(by)) {
		if (calendar === 'islamic-civil') continue; // its months have the names of islamic-umalqura
		const row = Object.fromEntries(locales.map((locale) => [locale, rowOf(locale, calendar, all)]));
		const count = (r) => locales.filter((l) => row[l] === r).length;
		row.und = Object.values(row).reduce((a, b) => (count(b) > count(a) ? b : a));
		for (const locale of ['und', ...locales]) {
			if (locale === 'en-GB' || locale !== 'und' && row[locale] === row[parent(locale)]) continue; // en-GB has the pattern of en
			const key = row[locale], name = calendar.replace(/-.*/, '');
			rows.set(key, { ...rows.get(key), [name]: [...(rows.get(key)?.[name] ?? []), locale] });
		}
	}
	for (const [row, uses] of rows) {
		const same = new Map();
		for (const [calendar, list] of Object.entries(uses)) same.set(list.join(' '), [...(same.get(list.join(' ')) ?? []), calendar]);
		for (const [list, calendars] of same) console.log([calendars.join(' '), list, row].join('\t'));
	}
}

// rowOf returns a pattern, "" if it is that of Gregorian dates, and the names of months.
function rowOf(locale, calendar, all) {
	const written = all.map((one) => ({ ...one, ...write(locale, calendar, one.at) }));
	const { pattern } = written[0];
	const chinese = locale.startsWith('zh') && lunar(calendar);
	const shown = chinese ? pattern.replace('D', '初') : locale !== 'ko' && pattern === read(locale, 'gregory', 0).pattern ? '' : pattern;
	if (written.every(({ M, month }) => M === String(month))) return `${shown}\t#`;
	const named = (list) => list.map(({ M }) => M);
	if (calendar !== 'hebrew') {
		const common = written.filter(({ code }) => !code.endsWith('L')), leap = written.find(({ code }) => code.endsWith('L'));
		const pattern = leap && leap.M.replace(common[leap.month - 2].M, '*');
		return `${shown}\t${[...named(common), ...(leap ? [pattern] : [])].join('|')}`;
	}
	const leapYear = written.slice(0, 13), common = written.slice(13);
	return `${shown}\t${[...named(common), leapYear[5].M, leapYear[6].M].join('|')}`;
}
