# completion for almanac

# _almanac_at sets at to the command that the line has got to before the cursor.
_almanac_at() {
	local i
	for ((i = 1; i < COMP_CWORD; i++)); do
		case "$at:${COMP_WORDS[i]}" in
		# steps
		esac
	done
}

# _almanac_words sets words to what can come next, after the flag $1 or after none.
_almanac_words() {
	case "$at:$1" in
	# values
	esac
	case "$at" in
	# words
	esac
}

_almanac() {
	local at= words= current=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD-1]}
	# "--gap=fo" is three words.
	if [[ $current == = ]]; then
		current=
	elif [[ $flag == = && $COMP_CWORD -gt 2 ]]; then
		flag=${COMP_WORDS[COMP_CWORD-2]}
	fi
	_almanac_at
	_almanac_words "$flag"
	COMPREPLY=($(compgen -W "$words" -- "$current"))
}

complete -o default -F _almanac almanac
