/** A value as the checks quote it: at the start, after `got` or after a colon. Names of characters ("_") stay. */
const quoted = /(^|got |: )("(?:[^"\\]|\\.)*"|-?\d[\d.]*)/g;
const suggestion = /; did you mean "[^"]*"\?$/;

/** A problem's message without the value it is about, which came from the environment or a secret file. */
export function hideValue(message: string): string {
  return message.replace(suggestion, '').replaceAll(quoted, '$1[from outside]');
}
