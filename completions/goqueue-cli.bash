# Completes goqueue-cli in bash; `goqueue-cli completion bash` writes it.

_goqueue_cli_at() {
    children="" flags="" values="" places=""
    case $1 in
        '')
            children='bench completion config consume delayed dlq group publish topic transaction undo'
            flags='-s --server -c --context -o --output --no-headers --timeout --api-key --api-key-file --color --version --debug -h --help'
            values=' -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            ;;
        'bench')
            children='compare consume latency publish'
            flags='-h --help'
            ;;
        'bench compare')
            flags='-o --output --no-headers --sort-by --color -h --help'
            values=' -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --color=auto|always|never'
            places='- -'
            ;;
        'bench consume')
            flags='--messages --size --partitions --group --save --confirm --dry-run -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --messages= --size= --partitions= --save=files --confirm= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics'
            ;;
        'bench latency')
            flags='--rate --duration --warm-up --size --partitions --save --confirm --dry-run -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --rate= --duration= --warm-up= --size= --partitions= --save=files --confirm= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics'
            ;;
        'bench publish')
            flags='--messages --size --partitions --producers --batch --rate --keep --save --confirm --dry-run -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --messages= --size= --partitions= --producers= --batch= --rate= --save=files --confirm= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics'
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
        'consume')
            flags='--partition --from --to -n --last -f --follow --limit --where --group --visibility --until-idle --confirm --format --isolation --skip-damage -s --server -c --context -o --output --no-headers --timeout --api-key --api-key-file --color -h --help'
            values=' --partition= --from=earliest|latest --to=earliest|latest|now -n= --last= --limit= --where= --group=groups --visibility= --until-idle= --confirm=groups --format= --isolation=read_committed|read_uncommitted -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics'
            ;;
        'delayed')
            children='cancel deliver describe list reschedule stats timeline'
            flags='-h --help'
            ;;
        'delayed cancel')
            flags='--all --where --partition --from --to --limit --dry-run -y --yes --confirm -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --where= --partition= --from=earliest|latest --to=earliest|latest|now --limit= --confirm= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics -+'
            ;;
        'delayed deliver')
            flags='--all --where --partition --from --to --limit --dry-run -y --yes --confirm -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --where= --partition= --from=earliest|latest --to=earliest|latest|now --limit= --confirm= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics -+'
            ;;
        'delayed describe')
            flags='-s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics -+'
            ;;
        'delayed list')
            flags='--where --partition --from --to --state --limit --skip -w --watch --every -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --where= --partition= --from=earliest|latest --to=earliest|latest|now --state=pending|delivered|cancelled|expired --limit= --skip= --every= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics'
            ;;
        'delayed reschedule')
            flags='--delay --at --shift --all --where --partition --from --to --limit --dry-run -y --yes --confirm -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --delay= --at= --shift= --where= --partition= --from=earliest|latest --to=earliest|latest|now --limit= --confirm= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics -+'
            ;;
        'delayed stats')
            flags='-s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            ;;
        'delayed timeline')
            flags='--buckets -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --buckets= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics+'
            ;;
        'dlq')
            children='browse describe errors list redrive sample'
            flags='-h --help'
            ;;
        'dlq browse'|'dlq show')
            flags='--error --group --from --to --where --limit -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --error= --group=groups --from=earliest|latest --to=earliest|latest|now --where= --limit= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics'
            ;;
        'dlq describe')
            flags='-s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics -+'
            ;;
        'dlq errors')
            flags='-s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics'
            ;;
        'dlq list')
            flags='-s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics+'
            ;;
        'dlq redrive')
            flags='--error --group --key --header --where --from --to --limit --rate --target --dry-run -y --yes --confirm -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --error= --group=groups --key= --header= --where= --from=earliest|latest --to=earliest|latest|now --limit= --rate= --target=topics --confirm= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics'
            ;;
        'dlq sample')
            flags='--error -n --limit -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --error= -n= --limit= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics'
            ;;
        'group')
            children='delete describe lag list reset wait watch'
            flags='-h --help'
            ;;
        'group delete')
            flags='--dry-run -y --yes --confirm -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --confirm= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='groups+'
            ;;
        'group describe')
            flags='-s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='groups+'
            ;;
        'group lag')
            flags='-w --watch --every -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --every= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='groups+'
            ;;
        'group list')
            flags='-w --watch --every -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --every= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='-'
            ;;
        'group reset')
            flags='--topic --partition --to --shift --create --dry-run -y --yes --confirm -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --topic=topics --partition= --to=earliest|latest|now --shift= --confirm= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='groups'
            ;;
        'group wait')
            flags='--for -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --for= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='groups+'
            ;;
        'group watch')
            flags='--every -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --every= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='groups'
            ;;
        'publish'|'produce')
            flags='--key --key-separator --header --partition --priority --delay --at --file --whole --jsonl --keep-partitions --template --first --seed --count --rate --transactional-id --dry-run -s --server -c --context -o --output --no-headers --timeout --api-key --api-key-file --color -h --help'
            values=' --key= --key-separator= --header= --partition= --priority=critical|high|normal|low|background --delay= --at= --file=files --template= --first= --seed= --count= --rate= --transactional-id= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics -+'
            ;;
        'topic')
            children='compact create delete describe edit list priorities watch'
            flags='-h --help'
            ;;
        'topic compact')
            flags='-s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics+'
            ;;
        'topic create')
            flags='--partitions --set -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --partitions= --set= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='-+'
            ;;
        'topic delete')
            flags='--dry-run -y --yes --confirm -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --confirm= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics+'
            ;;
        'topic describe')
            flags='-s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics+'
            ;;
        'topic edit'|'topic alter')
            flags='--set --dry-run -y --yes --confirm -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --set= --confirm= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics+'
            ;;
        'topic list')
            flags='--internal -w --watch --every -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --every= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='-'
            ;;
        'topic priorities')
            flags='-g --group -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' -g=groups --group=groups -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='topics+'
            ;;
        'topic watch')
            flags='--internal --every -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --every= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='-'
            ;;
        'transaction')
            children='abort describe list'
            flags='-h --help'
            ;;
        'transaction abort')
            flags='--transaction --reason --dry-run -y --yes --confirm -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --transaction= --reason= --confirm= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='transactions+'
            ;;
        'transaction describe')
            flags='-s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='transactions+'
            ;;
        'transaction list')
            flags='--topic --state --all --limit -w --watch --every -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --topic=topics --state=ongoing|prepare_commit|prepare_abort|empty|complete_commit|complete_abort --limit= --every= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='-'
            ;;
        'undo')
            flags='--dry-run -y --yes --confirm -s --server -c --context -o --output --no-headers --sort-by --timeout --api-key --api-key-file --color -h --help'
            values=' --confirm= -s= --server= -c=contexts --context=contexts -o=table|wide|name|json|jsonl|yaml|csv --output=table|wide|name|json|jsonl|yaml|csv --sort-by= --timeout= --api-key= --api-key-file=files --color=auto|always|never'
            places='files'
            ;;
    esac
}

_goqueue_cli_propose() {
    local kind=$1 current=$2
    case $kind in
        topics|groups|contexts) mapfile -t COMPREPLY < <(goqueue-cli __complete "$kind" "$current" "${words[@]:1}" 2>/dev/null) ;;
        files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        directories) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
        ?*) mapfile -t COMPREPLY < <(compgen -W "${kind//|/ }" -- "$current") ;;
    esac
}

_goqueue_cli() {
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
    _goqueue_cli_at ""
    for ((index = 1; index < ${#words[@]} - 1; index++)); do
        word=${words[index]}
        if [[ -z $only && $word == -- ]]; then
            only=yes
        elif [[ -z $only && $word == -?* ]]; then
            [[ " $values" == *" $word="* ]] || continue
            index=$((index + 1))
            ((index < ${#words[@]} - 1)) || flag=$word
        elif [[ -n $children && ( " $children " == *" $word "* || $word == @(alter|produce|show) ) ]]; then
            path="${path:+$path }$word"
            _goqueue_cli_at "$path"
        else
            number=$((number + 1))
        fi
    done
    if [[ -z $only && -z $flag && $current == --*=* && " $values" == *" ${current%%=*}="* ]]; then
        flag=${current%%=*} current=${current#*=}
    fi
    if [[ -n $flag ]]; then
        kind="${values#* $flag=}"
        _goqueue_cli_propose "${kind%% *}" "$current"
    elif [[ -z $only && $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
    elif [[ -n $children ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$children" -- "$current")
    else
        for kind in $places; do
            if ((number == 0)) || [[ $kind == *+ ]]; then
                _goqueue_cli_propose "${kind%+}" "$current"
                return
            fi
            number=$((number - 1))
        done
    fi
}

complete -F _goqueue_cli goqueue-cli
