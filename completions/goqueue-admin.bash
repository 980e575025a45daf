# Completes goqueue-admin in bash; `goqueue-admin completion bash` writes it.

_goqueue_admin_at() {
    children="" flags="" values="" places=""
    case $1 in
        '')
            children='broker completion config dashboard doctor rebalance'
            flags='-s --server -c --context -o --output --no-headers --timeout --api-key --api-key-file --color --version --debug -h --help'
            values=' -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            ;;
        'broker')
            children='describe watch'
            flags='-h --help'
            ;;
        'broker describe')
            flags='-s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            ;;
        'broker watch')
            flags='--every -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --every= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            ;;
        'completion')
            flags='-h --help'
            places='bash|zsh|fish'
            ;;
        'config')
            children='create delete describe edit list use view'
            flags='-h --help'
            ;;
        'config create')
            flags='-s --server --api-key --api-key-file --timeout -o --output --protected --no-protected -h --help'
            values=' -s= --server= --api-key= --api-key-file=files --timeout= -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv'
            places='-'
            ;;
        'config delete')
            flags='-y --yes --confirm -o --output --no-headers --sort-by --color -h --help'
            values=' --confirm= -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --color=auto|always|never'
            places='contexts+'
            ;;
        'config describe')
            flags='-o --output --no-headers --sort-by --color -h --help'
            values=' -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --color=auto|always|never'
            places='contexts+'
            ;;
        'config edit')
            flags='--unset -s --server --api-key --api-key-file --timeout -o --output --protected --no-protected -h --help'
            values=' --unset=server|api-key|api-key-file|timeout|output|protected -s= --server= --api-key= --api-key-file=files --timeout= -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv'
            places='contexts'
            ;;
        'config list')
            flags='-o --output --no-headers --sort-by --color -h --help'
            values=' -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --color=auto|always|never'
            ;;
        'config use')
            flags='-h --help'
            places='contexts'
            ;;
        'config view')
            flags='--show-origin -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            ;;
        'dashboard')
            flags='--read-only --theme --every -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --theme= --every= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            ;;
        'doctor')
            flags='--severity --checks -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --severity=critical|warning|note -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            ;;
        'rebalance')
            children='describe list watch'
            flags='-h --help'
            ;;
        'rebalance describe')
            flags='-s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='groups+'
            ;;
        'rebalance list')
            flags='-s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            ;;
        'rebalance watch')
            flags='--every -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --every= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            ;;
    esac
}

_goqueue_admin_propose() {
    local kind=$1 current=$2
    case $kind in
        topics|groups|contexts) mapfile -t COMPREPLY < <(goqueue-admin __complete "$kind" "$current" "${words[@]:1}" 2>/dev/null) ;;
        files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        directories) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
        ?*) mapfile -t COMPREPLY < <(compgen -W "${kind//|/ }" -- "$current") ;;
    esac
}

_goqueue_admin() {
    local path="" word="" kind="" flag="" number=0 index=0 only="" bare=""
    local rest=$COMP_LINE words=() children flags values places current
    COMPREPLY=()
    for ((index = 0; index <= COMP_CWORD; index++)); do
        word=${COMP_WORDS[index]}
        bare="${rest#"${rest%%[![:space:]]*}"}"
        if ((index)) && [[ $bare == "$rest" ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        rest=${bare#"$word"}
    done
    current=${words[${#words[@]} - 1]}
    _goqueue_admin_at ""
    for ((index = 1; index < ${#words[@]} - 1; index++)); do
        word=${words[index]}
        if [[ -z $only && $word == -- ]]; then
            only=yes
        elif [[ -z $only && $word == -?* ]]; then
            [[ " $values" == *" $word="* ]] || continue
            index=$((index + 1))
            ((index < ${#words[@]} - 1)) || flag=$word
        elif [[ -n $children && ( " $children " == *" $word "* || $word == @("") ) ]]; then
            path="${path:+$path }$word"
            _goqueue_admin_at "$path"
        else
            number=$((number + 1))
        fi
    done
    if [[ -z $only && -z $flag && $current == --*=* && " $values" == *" ${current%%=*}="* ]]; then
        flag=${current%%=*} current=${current#*=}
    fi
    if [[ -n $flag ]]; then
        kind="${values#* $flag=}"
        _goqueue_admin_propose "${kind%% *}" "$current"
    elif [[ -z $only && $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
    elif [[ -n $children ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$children" -- "$current")
    else
        for kind in $places; do
            if ((number == 0)) || [[ $kind == *+ ]]; then
                _goqueue_admin_propose "${kind%+}" "$current"
                return
            fi
            number=$((number - 1))
        done
    fi
}

complete -F _goqueue_admin goqueue-admin
