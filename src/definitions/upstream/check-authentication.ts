import type { Note } from '../check-names.ts';
import type { DefinitionFile } from '../definition-file.ts';
import type { YamlPath } from '../read-yaml.ts';
import { noSuch } from '../suggest-name.ts';
import { checkPattern } from './check-pattern.ts';
import { checkHeader, checkPath, checkQueryName, checkTemplateUrl } from './check-sent.ts';
import type { AuthenticationFile, HostSourceFile, UpstreamFile, ValueFile } from './upstream-file.ts';

type Shape = DefinitionFile['credentials'][number];

/**
 * Every way to sign in has its authentication, every value comes from a field of it, and every name in an address has a
 * source.
 */
export function checkAuthentications(
  file: DefinitionFile,
  upstream: UpstreamFile,
  inBase: readonly string[],
  note: Note,
): void {
  const titles = file.credentials.map(({ title }) => title);
  const at: YamlPath = ['upstream', 'auth'];
  if (titles.length === 0) {
    note(['upstream'], 'expected credentials beside it: say what is needed to sign in', ['credentials']);
    return;
  }
  for (const title of Object.keys(upstream.auth)) {
    if (titles.includes(title)) continue;
    note([...at, title], noSuch('title among the credentials', title, titles), ['credentials']);
  }
  for (const shape of file.credentials) {
    const { title } = shape;
    const auth = Object.hasOwn(upstream.auth, title) ? upstream.auth[title] : undefined;
    if (auth === undefined) {
      note(at, `is missing ${JSON.stringify(title)}, which credentials name`, at, ['credentials']);
    } else checkAuthentication(auth, shape, [...at, title], note);
  }
  checkHost(file, upstream, inBase, note);
}

function checkAuthentication(auth: AuthenticationFile, shape: Shape, at: YamlPath, note: Note): void {
  checkSent(auth, at, note);
  for (const [place, value] of Object.entries(valuesOf(auth))) {
    checkValue(value, shape, [...at, place], note);
  }
  if (auth.kind !== 'refresh') return;
  const fields = [auth.accessToken, auth.refreshToken];
  for (const [index, place] of (['accessToken', 'refreshToken'] as const).entries()) {
    checkField(fields[index] ?? '', shape, [...at, place], note);
  }
  if (auth.accessToken === auth.refreshToken) {
    note([...at, 'refreshToken'], 'expected another field than accessToken: both are saved');
  }
  if (!fields.some((field) => shape.fields[field]?.required === true)) {
    note(at, 'expected accessToken or refreshToken to be a required field', ['credentials']);
  }
}

/** Names and addresses that an authentication sends its values by. */
function checkSent(auth: AuthenticationFile, at: YamlPath, note: Note): void {
  if (auth.kind === 'header') {
    // Any scheme of Authorization may be written out here.
    if (auth.name.toLowerCase() !== 'authorization') checkHeader(auth.name, null, [...at, 'name'], note);
    if (!/^[\x20-\x7e]*$/.test(auth.prefix)) {
      note([...at, 'prefix'], 'expected a prefix of printable ASCII characters');
    }
  }
  if (auth.kind === 'query') checkQueryName(auth.name, [...at, 'name'], note);
}

/** The parts of an authentication that are values, by their key. */
function valuesOf(auth: AuthenticationFile): Readonly<Record<string, ValueFile>> {
  switch (auth.kind) {
    case 'basic':
      return { user: auth.user, password: auth.password };
    case 'bearer':
      return { token: auth.token };
    case 'header':
    case 'query':
      return { value: auth.value };
    case 'refresh':
      return { clientId: auth.clientId, clientSecret: auth.clientSecret };
  }
}

/** The field that a value is made of; null for a fixed text, or where the parts do not go together. */
function checkParts({ field, text, afterLast, suffix }: ValueFile, at: YamlPath, note: Note): string | null {
  if ((field === undefined) === (text === undefined)) {
    note(at, 'expected field or text, one of the two');
    return null;
  }
  if (text !== undefined && (afterLast !== undefined || suffix !== undefined)) {
    note(at, 'expected afterLast and suffix beside field only');
  }
  if (afterLast !== undefined && suffix !== undefined) note(at, 'expected afterLast or suffix, not both');
  return field ?? null;
}

function checkValue(value: ValueFile, shape: Shape, at: YamlPath, note: Note): void {
  const field = checkParts(value, at, note);
  if (field === null || !checkField(field, shape, [...at, 'field'], note)) return;
  if (shape.fields[field]?.required === false) {
    const message = `expected a required field: without ${field} no one could sign in`;
    note([...at, 'field'], message, ['credentials']);
  }
}

function checkField(field: string, { title, fields }: Shape, at: YamlPath, note: Note): boolean {
  if (Object.hasOwn(fields, field)) return true;
  note(at, noSuch(`field of the credentials ${JSON.stringify(title)}`, field, Object.keys(fields)), [
    'credentials',
  ]);
  return false;
}

function checkHost(
  file: DefinitionFile,
  upstream: UpstreamFile,
  inBase: readonly string[],
  note: Note,
): void {
  const { host, auth } = upstream;
  const declared = Object.keys(host);
  const used = new Set(inBase);
  const checkNames = (names: readonly string[], at: YamlPath): void => {
    for (const name of names) {
      used.add(name);
      if (!declared.includes(name)) note(at, noSuch('host variable', name, declared), ['upstream', 'host']);
    }
  };
  checkNames(inBase, ['upstream', 'baseUrl']);
  for (const [title, one] of Object.entries(auth)) {
    if (one.kind !== 'refresh') continue;
    const at = ['upstream', 'auth', title, 'tokenUrl'];
    const names = checkTemplateUrl(one.tokenUrl, at, note) ?? [];
    checkNames(names, at);
    // What a lookup asks with is the very token that is asked for here.
    const looked = names.find((name) => host[name]?.from.some(({ lookup }) => lookup !== undefined));
    if (looked !== undefined) note(at, `expected no host variable with a lookup, ${looked} has one`);
  }
  for (const [name, { from, pattern }] of Object.entries(host)) {
    const at = ['upstream', 'host', name];
    if (!used.has(name)) note(at, 'is in no address: use it in baseUrl or leave it out', ['upstream']);
    checkPattern(pattern, [...at, 'pattern'], note);
    const shapes = from.map((source, index) => checkSource(source, file, [...at, 'from', index], note));
    const without = file.credentials.find((shape) => !shapes.some((known) => known.includes(shape)));
    if (without !== undefined && shapes.every((known) => known.length > 0)) {
      const message = `expected a source that the credentials ${JSON.stringify(without.title)} have`;
      note([...at, 'from'], message, ['credentials'], [...at, 'from']);
    }
  }
}

/** The credentials that a source of a host variable can have a value for. */
function checkSource(
  { lookup, ...value }: HostSourceFile,
  { credentials }: DefinitionFile,
  at: YamlPath,
  note: Note,
): readonly Shape[] {
  const having = (one: ValueFile, place: YamlPath): readonly Shape[] => {
    const field = checkParts(one, place, note);
    if (field === null) return credentials;
    const found = credentials.filter(({ fields }) => Object.hasOwn(fields, field));
    if (found.length === 0) {
      const known = credentials.flatMap(({ fields }) => Object.keys(fields));
      note([...place, 'field'], noSuch('field of the credentials', field, known), ['credentials']);
    }
    return found;
  };
  if (lookup === undefined) return having(value, at);
  if (Object.values(value).some((part) => part !== undefined)) {
    note(at, 'expected lookup alone, or a value without it');
  }
  const lookupAt = [...at, 'lookup'];
  const names = checkTemplateUrl(lookup.url, [...lookupAt, 'url'], note);
  if (names !== null && names.length > 0) note([...lookupAt, 'url'], 'expected no names in this address');
  checkPath(lookup.path, [...lookupAt, 'path'], note);
  checkSent(lookup.auth, [...lookupAt, 'auth'], note);
  const found = Object.entries(valuesOf(lookup.auth)).map(([place, one]) =>
    having(one, [...lookupAt, 'auth', place]),
  );
  return credentials.filter((shape) => found.every((shapes) => shapes.includes(shape)));
}
