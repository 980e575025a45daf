# Completes goqueue in bash; `goqueue completion bash` writes it.

_goqueue_at() {
    children="" flags="" values="" places=""
    case $1 in
        '')
            children='completion config demo fsck serve spark-inspect version'
            flags='--version --debug -h --help'
            ;;
        'completion')
            flags='-h --help'
            places='bash|zsh|fish'
            ;;
        'config')
            children='check show template'
            flags='-h --help'
            ;;
        'config check')
            flags='-o --output -h --help'
            values=' -o=table|json --output=table|json'
            places='files'
            ;;
        'config show')
            flags='-o --output --data-dir --host --port --server-allowed-hosts --server-allowed-origins --server-request-bytes --server-in-flight-bytes --server-connections --server-idle-timeout --server-stop-timeout --topics-auto-create --topics-partitions --topics-retention --topics-max-message-bytes --storage-flush --storage-flush-interval --storage-segment-bytes --storage-segment-age --storage-tail-bytes --storage-upkeep-interval --storage-retention-jump-percent --groups-session-timeout --groups-revocation-timeout --groups-retention --groups-max-in-flight --groups-visibility-timeout --groups-max-retries --groups-retry-delay --groups-max-retry-delay --log-level --log-format --log-requests -h --help'
            values=' -o=table|json|yaml --output=table|json|yaml --data-dir=files --host= --port= --server-allowed-hosts= --server-allowed-origins= --server-request-bytes= --server-in-flight-bytes= --server-connections= --server-idle-timeout= --server-stop-timeout= --topics-auto-create=true|false --topics-partitions= --topics-retention= --topics-max-message-bytes= --storage-flush=always|interval --storage-flush-interval= --storage-segment-bytes= --storage-segment-age= --storage-tail-bytes= --storage-upkeep-interval= --storage-retention-jump-percent= --groups-session-timeout= --groups-revocation-timeout= --groups-retention= --groups-max-in-flight= --groups-visibility-timeout= --groups-max-retries= --groups-retry-delay= --groups-max-retry-delay= --log-level=debug|info|warning|error --log-format=text|json --log-requests='
            places='files'
            ;;
        'config template')
            flags='--for -h --help'
            values=' --for=default|dev|production'
            ;;
        'demo')
            flags='--port --for --rate -h --help'
            values=' --port= --for= --rate='
            ;;
        'fsck')
            flags='--repair --yes --jobs -o --output -h --help'
            values=' --jobs= -o=table|json --output=table|json'
            places='directories -+'
            ;;
        'serve')
            flags='--config --data-dir --host --port --server-allowed-hosts --server-allowed-origins --server-request-bytes --server-in-flight-bytes --server-connections --server-idle-timeout --server-stop-timeout --topics-auto-create --topics-partitions --topics-retention --topics-max-message-bytes --storage-flush --storage-flush-interval --storage-segment-bytes --storage-segment-age --storage-tail-bytes --storage-upkeep-interval --storage-retention-jump-percent --groups-session-timeout --groups-revocation-timeout --groups-retention --groups-max-in-flight --groups-visibility-timeout --groups-max-retries --groups-retry-delay --groups-max-retry-delay --log-level --log-format --log-requests -h --help'
            values=' --config=files --data-dir=files --host= --port= --server-allowed-hosts= --server-allowed-origins= --server-request-bytes= --server-in-flight-bytes= --server-connections= --server-idle-timeout= --server-stop-timeout= --topics-auto-create=true|false --topics-partitions= --topics-retention= --topics-max-message-bytes= --storage-flush=always|interval --storage-flush-interval= --storage-segment-bytes= --storage-segment-age= --storage-tail-bytes= --storage-upkeep-interval= --storage-retention-jump-percent= --groups-session-timeout= --groups-revocation-timeout= --groups-retention= --groups-max-in-flight= --groups-visibility-timeout= --groups-max-retries= --groups-retry-delay= --groups-max-retry-delay= --log-level=debug|info|warning|error --log-format=text|json --log-requests='
            ;;
        'spark-inspect')
            children='compaction dlq export forecast gaps keys lag latency package replay run sizes skew sql stream summary timeline usage verify'
            flags='-h --help'
            ;;
        'spark-inspect compaction')
            flags='--keys --top --approx -u --url --api-key --from --to --isolation -o --output --sort-by --no-headers --master --remote --conf --memory -h --help'
            values=' --top= -u= --url= --api-key= --from=earliest|latest --to=earliest|latest|now --isolation=read_committed|read_uncommitted -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --sort-by= --master= --remote= --conf= --memory='
            places='-+'
            ;;
        'spark-inspect dlq')
            flags='--by --since --top -u --url --api-key --from --to --isolation -o --output --sort-by --no-headers --master --remote --conf --memory -h --help'
            values=' --by=error|origin|group|hour --since= --top= -u= --url= --api-key= --from=earliest|latest --to=earliest|latest|now --isolation=read_committed|read_uncommitted -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --sort-by= --master= --remote= --conf= --memory='
            places='-+'
            ;;
        'spark-inspect export')
            flags='--out --format --partition-by --columns --json --json-schema --infer --compression --overwrite --skip-damage -u --url --api-key --from --to --isolation -o --output --sort-by --no-headers --master --remote --conf --memory -h --help'
            values=' --out= --format=parquet|json|csv --partition-by= --columns= --json-schema= --infer= --compression= -u= --url= --api-key= --from=earliest|latest --to=earliest|latest|now --isolation=read_committed|read_uncommitted -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --sort-by= --master= --remote= --conf= --memory='
            places='-+'
            ;;
        'spark-inspect forecast')
            flags='--disk --at -u --url --api-key --from --to --isolation -o --output --sort-by --no-headers --master --remote --conf --memory -h --help'
            values=' --disk= --at= -u= --url= --api-key= --from=earliest|latest --to=earliest|latest|now --isolation=read_committed|read_uncommitted -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --sort-by= --master= --remote= --conf= --memory='
            places='-+'
            ;;
        'spark-inspect gaps')
            flags='--max --content -u --url --api-key --from --to --isolation -o --output --sort-by --no-headers --master --remote --conf --memory -h --help'
            values=' --max= -u= --url= --api-key= --from=earliest|latest --to=earliest|latest|now --isolation=read_committed|read_uncommitted -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --sort-by= --master= --remote= --conf= --memory='
            places='-+'
            ;;
        'spark-inspect keys')
            flags='--top --approx --plot -u --url --api-key --from --to --isolation -o --output --sort-by --no-headers --master --remote --conf --memory -h --help'
            values=' --top= --plot=files -u= --url= --api-key= --from=earliest|latest --to=earliest|latest|now --isolation=read_committed|read_uncommitted -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --sort-by= --master= --remote= --conf= --memory='
            places='-+'
            ;;
        'spark-inspect lag')
            flags='-g --group --window --at -u --url --api-key --from --to --isolation -o --output --sort-by --no-headers --master --remote --conf --memory -h --help'
            values=' -g=groups --group=groups --window= --at= -u= --url= --api-key= --from=earliest|latest --to=earliest|latest|now --isolation=read_committed|read_uncommitted -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --sort-by= --master= --remote= --conf= --memory='
            places='-+'
            ;;
        'spark-inspect latency')
            flags='--header --field --bucket --plot -u --url --api-key --from --to --isolation -o --output --sort-by --no-headers --master --remote --conf --memory -h --help'
            values=' --header= --field=files --bucket= --plot=files -u= --url= --api-key= --from=earliest|latest --to=earliest|latest|now --isolation=read_committed|read_uncommitted -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --sort-by= --master= --remote= --conf= --memory='
            places='-+'
            ;;
        'spark-inspect package')
            flags='-o --output -h --help'
            values=' -o=table|json --output=table|json'
            places='files'
            ;;
        'spark-inspect replay')
            flags='--into -s --server --server-key --query --keep-partitions --rate --id --json-schema --infer --skip-damage --dry-run -y --yes --confirm -u --url --api-key --from --to --isolation -o --output --sort-by --no-headers --master --remote --conf --memory -h --help'
            values=' --into=topics -s= --server= --server-key= --query= --rate= --id= --json-schema= --infer= --confirm= -u= --url= --api-key= --from=earliest|latest --to=earliest|latest|now --isolation=read_committed|read_uncommitted -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --sort-by= --master= --remote= --conf= --memory='
            places='-+'
            ;;
        'spark-inspect run')
            flags='--set --check -o --output --no-headers --master --remote --conf --memory -h --help'
            values=' --set= -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --master= --remote= --conf= --memory='
            places='-'
            ;;
        'spark-inspect sizes')
            flags='--histogram --biggest --plot -u --url --api-key --from --to --isolation -o --output --sort-by --no-headers --master --remote --conf --memory -h --help'
            values=' --histogram=frame|value|key|headers --biggest= --plot=files -u= --url= --api-key= --from=earliest|latest --to=earliest|latest|now --isolation=read_committed|read_uncommitted -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --sort-by= --master= --remote= --conf= --memory='
            places='-+'
            ;;
        'spark-inspect skew')
            flags='-u --url --api-key --from --to --isolation -o --output --sort-by --no-headers --master --remote --conf --memory -h --help'
            values=' -u= --url= --api-key= --from=earliest|latest --to=earliest|latest|now --isolation=read_committed|read_uncommitted -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --sort-by= --master= --remote= --conf= --memory='
            places='-+'
            ;;
        'spark-inspect sql')
            flags='--limit --json-schema --infer --no-json --explain --skip-damage -u --url --api-key --from --to --isolation -o --output --sort-by --no-headers --master --remote --conf --memory -h --help'
            values=' --limit= --json-schema= --infer= -u= --url= --api-key= --from=earliest|latest --to=earliest|latest|now --isolation=read_committed|read_uncommitted -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --sort-by= --master= --remote= --conf= --memory='
            places='-+'
            ;;
        'spark-inspect stream')
            flags='--checkpoint --out --into -s --server --server-key --format --partition-by --keep-partitions --query --json-schema --infer --available-now --every --max-per-batch --skip-damage -u --url --api-key --from --to --isolation -o --output --sort-by --no-headers --master --remote --conf --memory -h --help'
            values=' --checkpoint=directories --out= --into=topics -s= --server= --server-key= --format=parquet|json|csv --partition-by= --query= --json-schema= --infer= --every= --max-per-batch= -u= --url= --api-key= --from=earliest|latest --to=earliest|latest|now --isolation=read_committed|read_uncommitted -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --sort-by= --master= --remote= --conf= --memory='
            places='-+'
            ;;
        'spark-inspect summary')
            flags='-u --url --api-key --from --to --isolation -o --output --sort-by --no-headers --master --remote --conf --memory -h --help'
            values=' -u= --url= --api-key= --from=earliest|latest --to=earliest|latest|now --isolation=read_committed|read_uncommitted -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --sort-by= --master= --remote= --conf= --memory='
            places='-+'
            ;;
        'spark-inspect timeline')
            flags='--bucket --by --plot -u --url --api-key --from --to --isolation -o --output --sort-by --no-headers --master --remote --conf --memory -h --help'
            values=' --bucket= --by=topic|partition|priority --plot=files -u= --url= --api-key= --from=earliest|latest --to=earliest|latest|now --isolation=read_committed|read_uncommitted -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --sort-by= --master= --remote= --conf= --memory='
            places='-+'
            ;;
        'spark-inspect usage')
            flags='--by --by-header --per -u --url --api-key --from --to --isolation -o --output --sort-by --no-headers --master --remote --conf --memory -h --help'
            values=' --by=topic|partition|producer|group --by-header= --per=day|hour -u= --url= --api-key= --from=earliest|latest --to=earliest|latest|now --isolation=read_committed|read_uncommitted -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --sort-by= --master= --remote= --conf= --memory='
            places='-+'
            ;;
        'spark-inspect verify')
            flags='--index -u --url --api-key --from --to --isolation -o --output --sort-by --no-headers --master --remote --conf --memory -h --help'
            values=' -u= --url= --api-key= --from=earliest|latest --to=earliest|latest|now --isolation=read_committed|read_uncommitted -o=table|wide|json|jsonl|yaml|csv|parquet --output=table|wide|json|jsonl|yaml|csv|parquet --sort-by= --master= --remote= --conf= --memory='
            places='-+'
            ;;
        'version')
            flags='-h --help'
            ;;
    esac
}

_goqueue_propose() {
    local kind=$1 current=$2
    case $kind in
        topics|groups|contexts) mapfile -t COMPREPLY < <(goqueue __complete "$kind" "$current" "${words[@]:1}" 2>/dev/null) ;;
        files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        directories) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
        ?*) mapfile -t COMPREPLY < <(compgen -W "${kind//|/ }" -- "$current") ;;
    esac
}

_goqueue() {
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
    _goqueue_at ""
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
            _goqueue_at "$path"
        else
            number=$((number + 1))
        fi
    done
    if [[ -z $only && -z $flag && $current == --*=* && " $values" == *" ${current%%=*}="* ]]; then
        flag=${current%%=*} current=${current#*=}
    fi
    if [[ -n $flag ]]; then
        kind="${values#* $flag=}"
        _goqueue_propose "${kind%% *}" "$current"
    elif [[ -z $only && $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
    elif [[ -n $children ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$children" -- "$current")
    else
        for kind in $places; do
            if ((number == 0)) || [[ $kind == *+ ]]; then
                _goqueue_propose "${kind%+}" "$current"
                return
            fi
            number=$((number - 1))
        done
    fi
}

complete -F _goqueue goqueue
