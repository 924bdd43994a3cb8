import type { Note } from '../check-names.ts';
import type { DefinitionFile } from '../definition-file.ts';
import type { YamlPath } from '../read-yaml.ts';
import { noSuch } from '../suggest-name.ts';
import {
  isIssued,
  type Authentication,
  type CredentialValue,
  type HostSource,
  type IssuedAuthentication,
  type PlainAuthentication,
} from './authentication.ts';
import { namesIn, type Template } from './template.ts';
import type { UpstreamFile } from './upstream-file.ts';

type Shape = DefinitionFile['credentials'][number];

/**
 * Every way to sign in has its authentication, every value comes from a field of it, and every name in an address has a
 * source.
 */
export function checkAuthentications(file: DefinitionFile, upstream: UpstreamFile, note: Note): void {
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
  checkHost(file, upstream, note);
}

function checkAuthentication(auth: Authentication, shape: Shape, at: YamlPath, note: Note): void {
  for (const [place, value] of valuesOf(auth)) {
    if (value.kind === 'text' || !checkField(value.field, shape, [...at, place, 'field'], note)) continue;
    if (shape.fields[value.field]?.required === false) {
      const message = `expected a required field: without ${value.field} no one could sign in`;
      note([...at, place, 'field'], message, ['credentials']);
    }
  }
  if (isIssued(auth)) checkIssued(auth, shape, at, note);
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

/** What comes with a token has a place of its own in the credentials, and is not there before. */
function checkIssued(auth: IssuedAuthentication, shape: Shape, at: YamlPath, note: Note): void {
  const tokens = auth.kind === 'refresh' ? [auth.accessToken, auth.refreshToken] : [];
  for (const field of Object.keys(auth.keeps)) {
    const here = [...at, 'keeps', field];
    if (!checkField(field, shape, here, note)) continue;
    if (tokens.includes(field)) note(here, `expected another field than ${field}: a token is saved there`);
    else if (shape.fields[field]?.required === true) {
      note(here, `expected required: false on ${field}: it comes with the token`, ['credentials']);
    }
  }
  if (auth.kind === 'refresh') return;
  if (auth.kind === 'authorizationCode' && auth.clientSecret === undefined && auth.style === 'basic') {
    note([...at, 'style'], 'expected body: basic authentication takes a clientSecret', [
      ...at,
      'clientSecret',
    ]);
  }
  const own = ownParams[auth.kind];
  for (const name of Object.keys(auth.params)) {
    if (own.includes(name)) note([...at, 'params', name], `${name} is sent anyway: leave it out here`);
  }
}

/** What the program sends itself. */
const ownParams: Readonly<Record<'clientCredentials' | 'authorizationCode', readonly string[]>> = {
  clientCredentials: ['grant_type', 'client_id', 'client_secret', 'scope'],
  authorizationCode: [
    'response_type',
    'client_id',
    'redirect_uri',
    'scope',
    'state',
    'code_challenge',
    'code_challenge_method',
  ],
};

/** The parts of an authentication that are values, by their key. */
function valuesOf(
  auth: Authentication | PlainAuthentication,
): readonly (readonly [string, CredentialValue])[] {
  return Object.entries(auth).flatMap(([place, part]) =>
    valuePlaces.has(place) ? [[place, part as CredentialValue] as const] : [],
  );
}

const valuePlaces: ReadonlySet<string> = new Set([
  'user',
  'password',
  'token',
  'value',
  'clientId',
  'clientSecret',
]);

function checkField(field: string, { title, fields }: Shape, at: YamlPath, note: Note): boolean {
  if (Object.hasOwn(fields, field)) return true;
  note(at, noSuch(`field of the credentials ${JSON.stringify(title)}`, field, Object.keys(fields)), [
    'credentials',
  ]);
  return false;
}

function checkHost(file: DefinitionFile, { host, auth, baseUrl }: UpstreamFile, note: Note): void {
  const declared = Object.keys(host);
  const used = new Set<string>();
  const checkNames = (names: readonly string[], at: YamlPath): void => {
    for (const name of names) {
      used.add(name);
      if (!declared.includes(name)) note(at, noSuch('host variable', name, declared), ['upstream', 'host']);
    }
  };
  checkNames(namesIn(baseUrl), ['upstream', 'baseUrl']);
  for (const [title, one] of Object.entries(auth)) {
    if (!isIssued(one)) continue;
    for (const [key, template] of addressesOf(one)) {
      const at = ['upstream', 'auth', title, key];
      const names = namesIn(template);
      checkNames(names, at);
      // What a lookup asks with is the very token that is asked for here.
      const looked = names.find((name) => host[name]?.from.some(({ kind }) => kind === 'lookup'));
      if (looked !== undefined) note(at, `expected no host variable with a lookup, ${looked} has one`);
      const kept = names.find((name) =>
        host[name]?.from.some((source) => 'field' in source && Object.hasOwn(one.keeps, source.field)),
      );
      if (kept !== undefined) {
        note(at, `expected no host variable that comes with the token, ${kept} does`, ['upstream', 'host']);
      }
    }
  }
  for (const [name, { from }] of Object.entries(host)) {
    const at = ['upstream', 'host', name];
    if (!used.has(name)) note(at, 'is in no address: use it in baseUrl or leave it out', ['upstream']);
    const shapes = from.map((source, index) => checkSource(source, file, [...at, 'from', index], note));
    const without = file.credentials.find((shape) => !shapes.some((known) => known.includes(shape)));
    if (without !== undefined && shapes.every((known) => known.length > 0)) {
      const message = `expected a source that the credentials ${JSON.stringify(without.title)} have`;
      note([...at, 'from'], message, ['credentials'], [...at, 'from']);
    }
  }
}

/** What is asked for tokens, by its key. */
function addressesOf(auth: IssuedAuthentication): readonly (readonly [string, Template])[] {
  if (auth.kind !== 'authorizationCode') return [['tokenUrl', auth.tokenUrl]];
  const { tokenUrl, authorizeUrl, deviceUrl, revokeUrl } = auth;
  return Object.entries({ tokenUrl, authorizeUrl, deviceUrl, revokeUrl }).flatMap(([key, template]) =>
    template === undefined ? [] : [[key, template] as const],
  );
}

/** The credentials that a source of a host variable can have a value for. */
function checkSource(
  source: HostSource,
  { credentials }: DefinitionFile,
  at: YamlPath,
  note: Note,
): readonly Shape[] {
  const having = (value: CredentialValue, place: YamlPath): readonly Shape[] => {
    if (value.kind === 'text') return credentials;
    const { field } = value;
    const found = credentials.filter(({ fields }) => Object.hasOwn(fields, field));
    if (found.length === 0) {
      const known = credentials.flatMap(({ fields }) => Object.keys(fields));
      note([...place, 'field'], noSuch('field of the credentials', field, known), ['credentials']);
    }
    return found;
  };
  if (source.kind !== 'lookup') return having(source, at);
  const found = valuesOf(source.auth).map(([place, one]) => having(one, [...at, 'lookup', 'auth', place]));
  return credentials.filter((shape) => found.every((shapes) => shapes.includes(shape)));
}
