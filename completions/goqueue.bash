# Completes goqueue in bash; `goqueue completion bash` writes this file.

_goqueue() {
    local found current=${COMP_WORDS[COMP_CWORD]#=}
    mapfile -t found < <(goqueue __complete "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    case ${found[0]} in
        :files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        :directories) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
        *) COMPREPLY=("${found[@]%%$'\t'*}") ;;
    esac
}

complete -F _goqueue goqueue
