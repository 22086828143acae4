// Prints month tables that others have taken from those of the authorities, in the form of icu.txt: for China from
// the yearly files of the Hong Kong Observatory, by npm's chinese-lunar-calendar 1.0.1, for Korea from those of the
// Korea Astronomy and Space Science Institute, by npm's korean-lunar-calendar 0.4.0, and for Saudi Arabia from the
// calendars that were printed for 1420 to 1450, by npm's @tabby_ai/hijri-converter 1.0.5, a port of hijridate.
//
//	npm install --no-save chinese-lunar-calendar@1.0.1 korean-lunar-calendar@0.4.0 @tabby_ai/hijri-converter@1.0.5
//	node testdata/tables.mjs >testdata/tables.txt

import { createRequire } from 'node:module';

const require = createRequire(`${process.cwd()}/`);
const { getLunar } = require('chinese-lunar-calendar');
const KoreanLunarCalendar = require('korean-lunar-calendar');
const { gregorianToHijri } = require('@tabby_ai/hijri-converter');

const korean = new KoreanLunarCalendar();
const calendars = {
	chinese: ['1901-02-19', '2100-12-31', ({ year, month, day }) => {
		const d = getLunar(year, month, day);
		return { month: d.lunarMonth, leap: d.isLeap, day: d.lunarDate };
	}],
	dangi: ['1900-01-31', '2050-12-31', ({ year, month, day }) => {
		if (!korean.setSolarDate(year, month, day)) throw new Error(`no ${year}-${month}-${day}`);
		const d = korean.getLunarCalendar();
		return { month: d.month, leap: d.intercalation, day: d.day };
	}],
	'islamic-umalqura': ['1999-04-17', '2029-05-14', (date) => ({ leap: false, ...gregorianToHijri(date) })],
};

console.log('# By testdata/tables.mjs, with chinese-lunar-calendar 1.0.1, korean-lunar-calendar 0.4.0 and @tabby_ai/hijri-converter 1.0.5.');
for (const [name, [first, last, read]] of Object.entries(calendars)) {
	const years = [];
	for (let at = Date.parse(first); at <= Date.parse(last); at += 86_400_000) {
		const date = new Date(at);
		const d = read({ year: date.getUTCFullYear(), month: date.getUTCMonth() + 1, day: date.getUTCDate() });
		if (d.month === 1 && d.day === 1 && !d.leap) years.push({ number: d.year ?? date.getUTCFullYear(), first: date.toISOString().slice(0, 10), leap: 0, months: [] });
		const y = years.at(-1);
		if (d.day === 1) {
			if (d.leap) y.leap = y.months.length;
			y.months.push(0);
		}
		if (++y.months[y.months.length - 1] !== d.day) throw new Error(`${name}: ${date.toISOString()} is day ${d.day}`);
	}
	years.at(-1).months.pop(); // which is not complete
	for (const y of years.filter(({ months }) => months.length)) {
		console.log(name, y.number, y.first, y.leap, y.months.map((days) => ({ 29: '-', 30: '+' })[days] ?? `(${days})`).join(''));
	}
}
