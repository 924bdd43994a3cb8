import { textAs } from '../schema-problems.ts';
import { type AnswerPath, type Template, fillTemplate, namesIn, parseTemplate } from './template.ts';

// Readers of single texts: addresses, paths, and the names and values that are sent.

type NoteText = (message: string) => void;

const hostName = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/;
const loopback = /^(127\.0\.0\.1|localhost)$/;

const braces = 'expected every { to begin a name and every } to end one';

/** An address of the service's, with names in its host. */
export function templateUrl(text: string, note: NoteText): Template {
  const template = parseTemplate(text);
  if (template === null) {
    note(braces);
    return [];
  }
  // Parsed with a letter in place of each name; in a host a letter can stand wherever a name can.
  const plain = fillTemplate(template, () => 'x');
  const url = URL.canParse(plain) ? new URL(plain) : null;
  const [, scheme = '', host = ''] = /^(https?):\/\/([^/:]*)(:\d+)?(\/[^?#\\]*)?$/.exec(plain) ?? [];
  if (!hostName.test(host) || url?.hostname !== host || url.username !== '') {
    note('expected an address such as https://api.example.com/v1: no user, query or fragment');
    return template;
  }
  if (scheme === 'http' && !loopback.test(host)) {
    note('expected https: credentials are sent there (http only for 127.0.0.1 and localhost)');
  }
  const afterHost = text.slice(text.indexOf('://') + 3);
  const slash = afterHost.indexOf('/');
  if (slash >= 0 && afterHost.slice(slash).includes('{')) {
    note('expected names in the host only, none behind its first /');
  }
  return template;
}

/** The path of a request; names are parameters. */
export function requestPath() {
  return textAs((path, note) => {
    const template = parseTemplate(path);
    if (template === null) {
      note(braces);
      return path;
    }
    const text = fillTemplate(template, () => 'x');
    // One / at the end belongs to the path, as some services need it.
    const segments = text.slice(1).replace(/\/$/, '').split('/');
    if (!text.startsWith('/')) note('expected a / at its beginning');
    else if (!/^[\w/.~!$'()*+,;=:@-]*$/.test(text)) {
      note('expected letters, digits and signs of a path: no query, fragment, space or %');
    } else if (text !== '/' && segments.some((segment) => ['', '.', '..'].includes(segment))) {
      note('expected no empty part, "." or ".." between its slashes');
    }
    const names = namesIn(template);
    const twice = names.find((name, index) => names.indexOf(name) !== index);
    if (twice !== undefined) note(`{${twice}} stands in it twice`);
    return path;
  });
}

/** Names (and positions, as digits) joined by dots, from the top of a JSON answer: `bot.workspace_id`. */
export function pathText(path: string, note: NoteText): string {
  if (path.split('.').includes('')) note(`expected names joined by dots, got ${JSON.stringify(path)}`);
  return path;
}

export function answerPath() {
  return textAs((path, note): AnswerPath => pathText(path, note).split('.'));
}

/** Also `page[cursor]` and `$top`. */
const queryPattern = /^[A-Za-z_$][\w.$[\]-]{0,99}$/;

export function queryName(name: string, note: NoteText): string {
  if (!queryPattern.test(name)) {
    note('expected a letter, "_" or "$", then letters, digits, "_", "-", ".", "$" or brackets');
  }
  return name;
}

const headerPattern = /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/;
/** Headers that the client or `auth` sets: a definition that could set them could undo checks. */
const ownHeaders = new Set([
  'authorization',
  'proxy-authorization',
  'host',
  'cookie',
  'connection',
  'upgrade',
  'te',
  'trailer',
  'transfer-encoding',
  'content-length',
  'content-type',
  'accept-encoding',
  'expect',
]);

/** The lower-case name of any header. */
export function headerName(name: string, note: NoteText): string {
  if (!headerPattern.test(name)) note('expected the name of a header: letters, digits, "-" and "_"');
  return name.toLowerCase();
}

/** The lower-case name of a header that a definition may send. */
export function header(name: string, note: NoteText): string {
  const lower = headerName(name, note);
  if (ownHeaders.has(lower)) note(`${name} is set by the program and by auth: leave it out`);
  return lower;
}

/** The value of a header that a definition sends. */
export function headerValue(value: string, note: NoteText): void {
  if (!/^[\x20-\x7e]+$/.test(value)) note('expected a value of printable ASCII characters');
}
