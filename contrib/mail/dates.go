package almanacmail

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"

	"github.com/almanac-go/almanac/calendar"
)

// dateForm is how a language writes dates. Names have spaces between them, or | if a name has spaces.
type dateForm struct {
	pattern  string // D, M and Y stand for the day, the month and the year
	months   string // from January, as they stand in a date; "" means numbers
	weekdays string // from Sunday
	digits   string // from zero; "" means those of English
}

const (
	arabWeek      = "الأحد الاثنين الثلاثاء الأربعاء الخميس الجمعة السبت"
	arabDigits    = "٠١٢٣٤٥٦٧٨٩"
	persianWeek   = "یکشنبه دوشنبه سه\u200cشنبه چهارشنبه پنجشنبه جمعه شنبه"
	persianDigits = "۰۱۲۳۴۵۶۷۸۹"
)

// likeRegion names the region whose dates those of other regions are like.
var likeRegion = map[string]string{
	"ar-BH": "ar-SA", "ar-DJ": "ar-SA", "ar-EG": "ar-SA", "ar-ER": "ar-SA", "ar-IL": "ar-SA", "ar-KM": "ar-SA", "ar-KW": "ar-SA",
	"ar-OM": "ar-SA", "ar-QA": "ar-SA", "ar-SD": "ar-SA", "ar-SO": "ar-SA", "ar-SS": "ar-SA", "ar-TD": "ar-SA", "ar-YE": "ar-SA",
	"ar-JO": "ar-IQ", "ar-LB": "ar-IQ", "ar-PS": "ar-IQ", "ar-SY": "ar-IQ", "ar-TN": "ar-DZ",
}

// dateForms are the long dates and the names of weekdays in Unicode CLDR 48, by locale. Most
// regions write as their language does. golang.org/x/text has no function for dates.
var dateForms = map[string]dateForm{
	"am": {"D M Y", "ጃንዋሪ ፌብሩዋሪ ማርች ኤፕሪል ሜይ ጁን ጁላይ ኦገስት ሴፕቴምበር ኦክቶበር ኖቬምበር ዲሴምበር",
		"እሑድ ሰኞ ማክሰኞ ረቡዕ ሐሙስ ዓርብ ቅዳሜ", ""},
	"ar":    {"D M Y", "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر", arabWeek, ""},
	"ar-DZ": {"D M Y", "جانفي فيفري مارس أفريل ماي جوان جويلية أوت سبتمبر أكتوبر نوفمبر ديسمبر", arabWeek, ""},
	"ar-IQ": {"D M Y", "كانون الثاني|شباط|آذار|نيسان|أيار|حزيران|تموز|آب|أيلول|تشرين الأول|تشرين الثاني|كانون الأول",
		arabWeek, arabDigits},
	"ar-MA": {"D M Y", "يناير فبراير مارس أبريل ماي يونيو يوليوز غشت شتنبر أكتوبر نونبر دجنبر", arabWeek, ""},
	"ar-MR": {"D M Y", "يناير فبراير مارس إبريل مايو يونيو يوليو أغشت شتمبر أكتوبر نوفمبر دجمبر", arabWeek, arabDigits},
	"ar-SA": {"D M Y", "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر", arabWeek, arabDigits},
	"bg": {"D M Y\u202fг.", "януари февруари март април май юни юли август септември октомври ноември декември",
		"неделя понеделник вторник сряда четвъртък петък събота", ""},
	"cs": {"D. M Y", "ledna února března dubna května června července srpna září října listopadu prosince",
		"neděle pondělí úterý středa čtvrtek pátek sobota", ""},
	"da": {"D. M Y", "januar februar marts april maj juni juli august september oktober november december",
		"søndag mandag tirsdag onsdag torsdag fredag lørdag", ""},
	"de": {"D. M Y", "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
		"Sonntag Montag Dienstag Mittwoch Donnerstag Freitag Samstag", ""},
	"de-AT": {"D. M Y", "Jänner Februar März April Mai Juni Juli August September Oktober November Dezember",
		"Sonntag Montag Dienstag Mittwoch Donnerstag Freitag Samstag", ""},
	"el": {"D M Y", "Ιανουαρίου Φεβρουαρίου Μαρτίου Απριλίου Μαΐου Ιουνίου Ιουλίου Αυγούστου Σεπτεμβρίου Οκτωβρίου Νοεμβρίου Δεκεμβρίου",
		"Κυριακή Δευτέρα Τρίτη Τετάρτη Πέμπτη Παρασκευή Σάββατο", ""},
	"en": {"M D, Y", "January February March April May June July August September October November December",
		"Sunday Monday Tuesday Wednesday Thursday Friday Saturday", ""},
	"en-001": {"D M Y", "January February March April May June July August September October November December",
		"Sunday Monday Tuesday Wednesday Thursday Friday Saturday", ""},
	"en-CA": {"M D, Y", "January February March April May June July August September October November December",
		"Sunday Monday Tuesday Wednesday Thursday Friday Saturday", ""},
	"es": {"D de M de Y", "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
		"domingo lunes martes miércoles jueves viernes sábado", ""},
	"fa":    {"D M Y", "ژانویهٔ فوریهٔ مارس آوریل مهٔ ژوئن ژوئیهٔ اوت سپتامبر اکتبر نوامبر دسامبر", persianWeek, persianDigits},
	"fa-AF": {"D M Y", "جنوری فبروری مارچ اپریل می جون جولای اگست سپتمبر اکتوبر نومبر دسمبر", persianWeek, persianDigits},
	"fi": {"D. M Y", "tammikuuta helmikuuta maaliskuuta huhtikuuta toukokuuta kesäkuuta heinäkuuta elokuuta syyskuuta lokakuuta marraskuuta joulukuuta",
		"sunnuntai maanantai tiistai keskiviikko torstai perjantai lauantai", ""},
	"fr": {"D M Y", "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
		"dimanche lundi mardi mercredi jeudi vendredi samedi", ""},
	"he": {"D בM Y", "ינואר פברואר מרץ אפריל מאי יוני יולי אוגוסט ספטמבר אוקטובר נובמבר דצמבר",
		"יום ראשון|יום שני|יום שלישי|יום רביעי|יום חמישי|יום שישי|יום שבת", ""},
	"hr": {"D. M Y.", "siječnja veljače ožujka travnja svibnja lipnja srpnja kolovoza rujna listopada studenoga prosinca",
		"nedjelja ponedjeljak utorak srijeda četvrtak petak subota", ""},
	"hu": {"Y. M D.", "január február március április május június július augusztus szeptember október november december",
		"vasárnap hétfő kedd szerda csütörtök péntek szombat", ""},
	"it": {"D M Y", "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
		"domenica lunedì martedì mercoledì giovedì venerdì sabato", ""},
	"ja": {"Y年M月D日", "",
		"日曜日 月曜日 火曜日 水曜日 木曜日 金曜日 土曜日", ""},
	"ko": {"Y년 M월 D일", "",
		"일요일 월요일 화요일 수요일 목요일 금요일 토요일", ""},
	"nl": {"D M Y", "januari februari maart april mei juni juli augustus september oktober november december",
		"zondag maandag dinsdag woensdag donderdag vrijdag zaterdag", ""},
	"nb": {"D. M Y", "januar februar mars april mai juni juli august september oktober november desember",
		"søndag mandag tirsdag onsdag torsdag fredag lørdag", ""},
	"no": {"D. M Y", "januar februar mars april mai juni juli august september oktober november desember",
		"søndag mandag tirsdag onsdag torsdag fredag lørdag", ""},
	"pl": {"D M Y", "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
		"niedziela poniedziałek wtorek środa czwartek piątek sobota", ""},
	"pt": {"D de M de Y", "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
		"domingo segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado", ""},
	"ro": {"D M Y", "ianuarie februarie martie aprilie mai iunie iulie august septembrie octombrie noiembrie decembrie",
		"duminică luni marți miercuri joi vineri sâmbătă", ""},
	"ru": {"D M Y\u202fг.", "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
		"воскресенье понедельник вторник среда четверг пятница суббота", ""},
	"sk": {"D. M Y", "januára februára marca apríla mája júna júla augusta septembra októbra novembra decembra",
		"nedeľa pondelok utorok streda štvrtok piatok sobota", ""},
	"sv": {"D M Y", "januari februari mars april maj juni juli augusti september oktober november december",
		"söndag måndag tisdag onsdag torsdag fredag lördag", ""},
	"tr": {"D M Y", "Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık",
		"Pazar Pazartesi Salı Çarşamba Perşembe Cuma Cumartesi", ""},
	"uk": {"D M Y\u202fр.", "січня лютого березня квітня травня червня липня серпня вересня жовтня листопада грудня",
		"неділя понеділок вівторок середа четвер пʼятниця субота", ""},
	"vi": {"D tháng M, Y", "",
		"Chủ Nhật|Thứ Hai|Thứ Ba|Thứ Tư|Thứ Năm|Thứ Sáu|Thứ Bảy", ""},
	"zh": {"Y年M月D日", "",
		"星期日 星期一 星期二 星期三 星期四 星期五 星期六", ""},
	"zh-Hant": {"Y年M月D日", "",
		"星期日 星期一 星期二 星期三 星期四 星期五 星期六", ""},
}

// dateFormOf returns how a locale writes dates, or false if that is not known.
func dateFormOf(locale language.Tag) (dateForm, bool) {
	for tag := locale; !tag.IsRoot(); tag = tag.Parent() { // en-GB, en-001, en
		if form, ok := dateForms[cmp.Or(likeRegion[tag.String()], tag.String())]; ok {
			return form, true
		}
	}
	return dateForm{}, false
}

// date writes a date in the locale's long form, or as YYYY-MM-DD if that is not known.
func (m *messages) date(value any) (string, error) {
	date, err := dateOf(value)
	form, known := dateFormOf(m.locale)
	if err != nil || !known {
		return date.String(), err
	}
	month := form.number(int(date.Month))
	if form.months != "" {
		month = namesIn(form.months)[date.Month-time.January]
	}
	return strings.NewReplacer("D", form.number(date.Day), "M", month, "Y", form.number(date.Year)).Replace(form.pattern), nil
}

// namesIn splits names.
func namesIn(names string) []string {
	if strings.Contains(names, "|") {
		return strings.Split(names, "|")
	}
	return strings.Fields(names)
}

// number writes a number in the language's digits.
func (f dateForm) number(n int) string {
	text := strconv.Itoa(n)
	if f.digits == "" {
		return text
	}
	digits := []rune(f.digits)
	return strings.Map(func(c rune) rune { return digits[c-'0'] }, text)
}

// weekday writes the name of a date's weekday.
func (m *messages) weekday(value any) (string, error) {
	date, err := dateOf(value)
	if err != nil {
		return "", err
	}
	form, known := dateFormOf(m.locale)
	if !known {
		return "", fmt.Errorf("the names of weekdays are not known for locale %s", m.locale)
	}
	at := calendar.WallTime{Date: date}.Labelled()
	return namesIn(form.weekdays)[at.Weekday()], nil
}

// dateTypes are the types of dates, which dateTypeNames lists.
var dateTypes = []reflect.Type{reflect.TypeFor[calendar.Date](), reflect.TypeFor[calendar.WallTime](), reflect.TypeFor[string]()}

const dateTypeNames = "a calendar.Date, a calendar.WallTime or a text YYYY-MM-DD"

// dateOf returns the date that a template gives to a function.
func dateOf(value any) (calendar.Date, error) {
	var date calendar.Date
	switch value := value.(type) {
	case calendar.Date:
		date = value
	case calendar.WallTime:
		date = value.Date
	case string:
		return calendar.ParseDate(value)
	default:
		return date, fmt.Errorf("%T is not %s", value, dateTypeNames)
	}
	if !date.Valid() {
		return date, fmt.Errorf("%s is not a date", date)
	}
	return date, nil
}
