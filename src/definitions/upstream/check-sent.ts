import type { Note } from '../check-names.ts';
import type { YamlPath } from '../read-yaml.ts';
import { namesIn, parseTemplate } from './template.ts';
import type { CheckFile, PlaceFile, RequestFile } from './upstream-file.ts';

/** Checks of single texts: addresses, paths, and the names and values that are sent. */

const hostName = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/;
const loopback = /^(127\.0\.0\.1|localhost)$/;

/** The names in an address of the service's, each in its host; null where it is no such address. */
export function checkTemplateUrl(text: string, at: YamlPath, note: Note): readonly string[] | null {
  const template = parseTemplate(text);
  if (template === null) {
    note(at, 'expected every { to begin a name and every } to end one');
    return null;
  }
  // Parsed with a letter in place of each name; in a host a letter can stand wherever a name can.
  const plain = template.map((one) => (one.kind === 'text' ? one.text : 'x')).join('');
  const url = URL.canParse(plain) ? new URL(plain) : null;
  const [, scheme = '', host = ''] = /^(https?):\/\/([^/:]*)(:\d+)?(\/[^?#\\]*)?$/.exec(plain) ?? [];
  if (!hostName.test(host) || url?.hostname !== host || url.username !== '') {
    note(at, 'expected an address such as https://api.example.com/v1: no user, query or fragment');
    return null;
  }
  if (scheme === 'http' && !loopback.test(host)) {
    note(at, 'expected https: credentials are sent there (http only for 127.0.0.1 and localhost)');
  }
  const names = namesIn(template);
  const afterHost = text.slice(text.indexOf('://') + 3);
  const slash = afterHost.indexOf('/');
  if (slash >= 0 && afterHost.slice(slash).includes('{')) {
    note(at, 'expected names in the host only, none behind its first /');
  }
  return names;
}

/** Method, path and fixed values of a request; gives the names in its path. */
export function checkRequest(request: RequestFile | CheckFile, at: YamlPath, note: Note): readonly string[] {
  const { method, path, query, body, safe } = request;
  const methodAt = [...at, 'method'];
  if (method === 'GET' && Object.keys(body).length > 0) {
    note([...at, 'body'], 'expected method: POST beside it: a GET has no body', methodAt);
  }
  if (method === 'GET' && safe) {
    note([...at, 'safe'], 'belongs to a POST: a GET is always safe to send again', methodAt);
  }
  for (const name of Object.keys(query)) checkQueryName(name, [...at, 'query', name], note);
  return checkRequestPath(path, [...at, 'path'], note);
}

function checkRequestPath(path: string, at: YamlPath, note: Note): readonly string[] {
  const template = parseTemplate(path);
  if (template === null) {
    note(at, 'expected every { to begin a name and every } to end one');
    return [];
  }
  const text = template.map((one) => (one.kind === 'text' ? one.text : 'x')).join('');
  const segments = text.slice(1).split('/');
  if (!text.startsWith('/')) note(at, 'expected a / at its beginning');
  else if (!/^[\w/.~!$'()*+,;=:@-]*$/.test(text)) {
    note(at, 'expected letters, digits and signs of a path: no query, fragment, space or %');
  } else if (text !== '/' && segments.some((segment) => ['', '.', '..'].includes(segment))) {
    note(at, 'expected no empty part, "." or ".." between its slashes');
  }
  const names = namesIn(template);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) note(at, `{${twice}} stands in it twice`);
  return names;
}

/** Names joined by dots, from the top of an answer. */
export function checkPath(path: string, at: YamlPath, note: Note): void {
  if (path.split('.').includes('')) {
    note(at, `expected names joined by dots, got ${JSON.stringify(path)}`);
  }
}

export function checkPlace({ path, header }: PlaceFile, at: YamlPath, note: Note): void {
  if ((path === undefined) === (header === undefined)) note(at, 'expected path or header, one of the two');
  if (path !== undefined) checkPath(path, at, note);
  if (header !== undefined) checkHeaderName(header, [...at, 'header'], note);
}

/** Also `page[cursor]` and `$top`. */
const queryName = /^[A-Za-z_$][\w.$[\]-]{0,99}$/;

export function checkQueryName(name: string, at: YamlPath, note: Note): void {
  if (!queryName.test(name)) {
    note(at, 'expected a letter, "_" or "$", then letters, digits, "_", "-", ".", "$" or brackets');
  }
}

const headerName = /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/;
/** Set by the client, or by `auth`: a definition that could set them could undo what is checked. */
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

export function checkHeaderName(name: string, at: YamlPath, note: Note): void {
  if (!headerName.test(name)) note(at, 'expected the name of a header: letters, digits, "-" and "_"');
}

/** A header that is sent; `value` is null where it comes with the call. */
export function checkHeader(name: string, value: string | null, at: YamlPath, note: Note): void {
  checkHeaderName(name, at, note);
  if (ownHeaders.has(name.toLowerCase())) note(at, `${name} is set by the program and by auth: leave it out`);
  if (value !== null && !/^[\x20-\x7e]+$/.test(value)) {
    note(at, 'expected a value of printable ASCII characters');
  }
}
