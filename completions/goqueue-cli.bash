# Completes goqueue-cli in bash; `goqueue-cli completion bash` writes this file.

_goqueue_cli() {
    local found current=${COMP_WORDS[COMP_CWORD]#=}
    mapfile -t found < <(goqueue-cli __complete "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    case ${found[0]} in
        :files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        :directories) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
        *) COMPREPLY=("${found[@]%%$'\t'*}") ;;
    esac
}

complete -F _goqueue_cli goqueue-cli
