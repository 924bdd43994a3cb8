import { createRequire } from 'node:module';
import type * as Re2 from 're2js';
import * as z from 'zod';
import { textAs, strictObject } from '../schema-problems.ts';

/** Text with names that stand for values: `/lists/{list_id}`. */
export type Template = readonly TemplatePart[];
type TemplatePart =
  { readonly kind: 'text'; readonly text: string } | { readonly kind: 'name'; readonly name: string };

/** Names (and positions, as digits) from the top of a JSON answer: `bot.workspace_id`. */
export type AnswerPath = readonly string[];

export type AnswerPlace =
  | { readonly kind: 'body'; readonly path: AnswerPath }
  /** Lower-case. */
  | { readonly kind: 'header'; readonly name: string };

/** `bot.workspace_id`, or `@odata\.nextLink` with a dot in a name; an empty text is the whole answer. */
export function answerPath(text: string): AnswerPath {
  return text === '' ? [] : text.split(/(?<!\\)\./).map((name) => name.replaceAll('\\.', '.'));
}

const part = /\{([A-Za-z][A-Za-z0-9_.-]{0,63})\}|[^{}]+/gy;

/** `/lists/{list_id}` as its parts; null where a brace has no partner or holds no name. */
function parseTemplate(text: string): Template | null {
  const parts: TemplatePart[] = [];
  let end = 0;
  for (const { 0: whole, 1: name, index } of text.matchAll(part)) {
    if (index !== end) return null;
    parts.push(name === undefined ? { kind: 'text', text: whole } : { kind: 'name', name });
    end = index + whole.length;
  }
  return end === text.length ? parts : null;
}

/** `id:{team}` as its parts; braces around anything else stand for themselves, as those of JSON do. */
export function textTemplate(text: string): Template {
  const parts = text.split(/\{([A-Za-z][A-Za-z0-9_.-]{0,63})\}/);
  return parts.map((one, index) =>
    index % 2 === 0 ? { kind: 'text', text: one } : { kind: 'name', name: one },
  );
}

export function namesIn(template: Template): readonly string[] {
  return template.flatMap((one) => (one.kind === 'name' ? [one.name] : []));
}

/** The text with every name replaced. What a value may hold is the caller's business. */
export function fillTemplate(template: Template, valueOf: (name: string) => string): string {
  return template.map((one) => (one.kind === 'name' ? valueOf(one.name) : one.text)).join('');
}

/** Parses a text that was checked before. Throws `TypeError` otherwise. */
export function checkedTemplate(text: string): Template {
  const template = parseTemplate(text);
  if (template === null) throw new TypeError(`expected a checked text, got ${JSON.stringify(text)}`);
  return template;
}

// Readers of single texts: addresses, paths, and the names and values that are sent.

type NoteText = (message: string) => void;

const hostName = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/;
/** A host, or a part of one. */
export function hostText(text: string, note: NoteText): string {
  if (!hostName.test(text)) note('expected a host such as api.example.com, or a part of one');
  return text;
}

const loopback = /^(127\.0\.0\.1|localhost)$/;

const braces = 'expected every { to begin a name and every } to end one';

/** An address of the service's, with names in its host or path. */
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

/** A list of such texts: the places of values in a record or an answer. */
export function paths() {
  return z.array(textAs(pathText));
}

export function answerPathText() {
  return textAs((path, note): AnswerPath => answerPath(pathText(path, note)));
}

/** Also `page[cursor]` and `$top`. */
const queryPattern = /^[A-Za-z_$][\w.$[\]:-]{0,99}$/;

export function queryName(name: string, note: NoteText): string {
  if (!queryPattern.test(name)) {
    note('expected a letter, "_" or "$", then letters, digits, "_", "-", ".", ":", "$" or brackets');
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

type RecordsFile = z.infer<ReturnType<typeof recordsFile>>;

/** The place of the records in an answer. */
export interface RecordsPlace {
  /** The array; with `isOne` the record. Empty: the answer itself. */
  readonly path: AnswerPath;
  /** Places within the elements, each in those of the one before: of an array, or at last of a record. */
  readonly members: readonly AnswerPath[];
  /** One object is there: the only record. */
  readonly isOne: boolean;
  /** An object is there, whose members are the records; `keyInto`: the field that their names fill, or null. */
  readonly map: { readonly keyInto: string | null } | null;
}

export type EmptyForm = 'null' | 'missing' | 'noContent';

/** Forms that stand for an empty array in an answer without records; `noContent`: an answer without a body. */
export function emptyFile() {
  const forms = ['null', 'missing', 'noContent'] as const;
  const form = z.preprocess((value) => (value === null ? 'null' : value), z.enum(forms));
  return z.array(form, { error: `expected a list of ${forms.join(', ')}` });
}

/**
 * `items`, an empty text for the answer itself, `list[*].customer` for records that are wrapped,
 * `days[*].visits[*].guest` for lists in lists, `{ path, one: true }` for one object, or `{ path, map: true }` for
 * the members of one.
 */
export function recordsFile() {
  const path = textAs(wholeOrPath);
  const one = strictObject({ path, one: z.literal(true) });
  const map = strictObject({ path, map: z.literal(true), keyInto: z.string().optional() });
  return z.union([textAs(checkRecords), one, map], {
    error:
      'expected a path such as items or list[*].customer, { path: item, one: true } or { path: items, map: true }',
  });
}

/** Parses the place of the records in a file that was checked. */
export function recordsPlace(file: RecordsFile): RecordsPlace {
  if (typeof file !== 'string') {
    const map = 'map' in file ? { keyInto: file.keyInto ?? null } : null;
    return { path: answerPath(file.path), members: [], isOne: map === null, map };
  }
  const [path = '', ...members] = file.split(eachElement);
  return {
    path: answerPath(path),
    members: members.map((member) => answerPath(member.slice(1))),
    isOne: false,
    map: null,
  };
}

const eachElement = '[*]';

function checkRecords(text: string, note: (message: string) => void): string {
  const [path = '', ...members] = text.split(eachElement);
  const isPath = (member: string, index: number): boolean =>
    member.startsWith('.') || (member === '' && index === 1 && members.length === 2);
  if (members.length > 2) note('expected [*] twice at most');
  else if (!members.every(isPath)) {
    note(
      'expected a member behind [*], such as list[*].customer; leave [*] out where its elements are the records',
    );
  } else {
    wholeOrPath(path, note);
    for (const member of members) wholeOrPath(member.slice(1), note);
  }
  return text;
}

export function wholeOrPath(path: string, note: (message: string) => void): string {
  return path === '' ? path : pathText(path, note);
}

/**
 * A regular expression from a text that is not part of this program: matched without backtracking, so that none can
 * block the process. Look-around and back-references are not supported. Throws `SyntaxError` for an invalid pattern.
 */
export function linearPattern(pattern: string) {
  // Few commands use such a pattern, so the package is loaded on first use. `as`: the exports of the package.
  const { RE2JS } = createRequire(import.meta.url)('re2js') as typeof Re2;
  try {
    return RE2JS.compile(pattern);
  } catch (cause) {
    throw new SyntaxError('expected a regular expression', { cause });
  }
}
