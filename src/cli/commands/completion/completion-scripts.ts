export const shells = ['bash', 'zsh', 'fish', 'powershell'] as const;

export type Shell = (typeof shells)[number];

/** What is typed is given to the program as words, and never evaluated. */
export const completionScripts: Readonly<Record<Shell, string>> = {
  bash: `
_connector_sync() {
  local IFS=$'\\n'
  COMPREPLY=($(connector-sync complete bash -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  [[ \${COMPREPLY[0]} == */ ]] && compopt -o nospace
}
complete -o default -F _connector_sync connector-sync
`,
  zsh: `
_connector_sync() {
  local -a found
  found=("\${(@f)$(connector-sync complete zsh -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -z \${found[1]} ]]; then
    _files
  elif [[ \${found[1]} == */: ]]; then
    compadd -S '' -- "\${(@)found%:}"
  else
    _describe -V 'connector-sync' found
  fi
}
compdef _connector_sync connector-sync
`,
  fish: `
function __connector_sync_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l found (connector-sync complete fish -- $words[2..] 2>/dev/null)
  if test (count $found) -eq 0
    __fish_complete_path (commandline -ct)
  else
    printf '%s\\n' $found
  end
end
complete -c connector-sync -f -a '(__connector_sync_complete)'
`,
  powershell: `
Register-ArgumentCompleter -Native -CommandName connector-sync -ScriptBlock {
  param($current, $line, $cursor)
  $words = @($line.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.Extent.Text })
  if ($current -eq '') { $words += '' }
  & connector-sync complete powershell '--' @words 2>$null | ForEach-Object {
    $value, $text = $_ -split "\`t", 2
    if (-not $text) { $text = $value }
    [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $text)
  }
}
`,
};
