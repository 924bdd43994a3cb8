import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { withValueAt, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { YamlPath } from '../read-yaml.ts';
import type { ModeName } from './modes.ts';
import { oneLine, plainText } from './parts.ts';
import type { EntityPlan } from './plan-entity.ts';
import type { Server } from './server.ts';
import type { ServiceFile } from './service-file.ts';
import type { SignIn } from './sign-in.ts';
import { fixedHeaders, writeEntity } from './write-entity.ts';
import { writeYaml, type Comment } from './write-yaml.ts';

export interface WrittenDefinition {
  readonly name: string;
  readonly text: string;
}

/** The text of a definition file of these entities, each inference with its evidence above it. */
export function writeDefinition(
  service: ServiceFile,
  mode: ModeName,
  plans: readonly EntityPlan[],
  ways: readonly SignIn[],
  server: Server,
): WrittenDefinition {
  const comments: Comment[] = [];
  const note = (at: YamlPath, text: string): void => void comments.push({ at, text: oneLine(text, 300) });
  // Of a plain file there is no hosted definition beside this one.
  const isOnly = mode === 'hosted' || service.isPlain;
  const name = isOnly ? service.name : `${service.name}-direct`;
  const shared = sharedHeaders(plans);
  const written = plans.map((plan) => [plan.entity, writeEntity(plan, mode, service, note, shared)] as const);
  note(['rateLimit'], 'rateLimit # guessed: the file says nothing about limits');
  const used = mode === 'hosted' ? ways : ways.filter(({ auth }) => auth !== null);
  const hostFields = server.kind === 'found' ? Object.keys(server.host) : [];
  const data: Record<string, JsonValue> = {
    name,
    title: isOnly ? service.title : `${service.title} (direct)`,
    id: mode === 'hosted' ? service.id : directId(service.id),
    rateLimit: { requestsPerSecond: 2, concurrency: 2 },
    ...(used.length === 0 ? {} : { credentials: used.map((way) => credentialsOf(way, hostFields)) }),
    entities: Object.fromEntries(written.map(([entity, { entity: part }]) => [entity, part])),
  };
  if (mode === 'direct' && server.kind === 'found') {
    const requests = written.flatMap(([entity, { upstream }]) =>
      upstream === null ? [] : [[entity, upstream] as const],
    );
    if (server.open !== null) note(['upstream', 'baseUrl'], `TODO ${server.open}`);
    data['upstream'] = upstreamOf(service, used, server, plans, Object.fromEntries(requests), note);
  }
  for (const { at, text } of plans.flatMap(({ open }) => open)) note(at, `TODO ${text}`);
  return { name, text: writeYaml(data, comments, headOf(service, mode)) };
}

/** Another type than the one of the API's catalog, and the same one in every import. */
function directId(id: string): string {
  const hex = createHash('sha256').update(`${id} direct`).digest('hex');
  const variant = '89ab'[Number.parseInt(hex.slice(16, 17), 16) % 4] ?? '8';
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

function headOf(
  { name, version, sha256, title, file, licenseNote }: ServiceFile,
  mode: ModeName,
): readonly string[] {
  return [
    `${title}: imported for ${mode} connectors from ${name} ${version} (${oneLine(basename(file), 80)}, SHA-256 ${sha256}).`,
    ...licenseNote,
    'Written by "connector-sync definitions import". Comments name the evidence; what is guessed is marked.',
  ];
}

function credentialsOf({ title, fields }: SignIn, hostFields: readonly string[]): JsonObject {
  const entries = Object.entries(fields).map(([name, { secret, required }]) => [
    name,
    { ...(secret ? {} : { secret }), ...(required ? {} : { required }) },
  ]);
  const host = hostFields.filter((name) => !Object.hasOwn(fields, name));
  return {
    title,
    fields: Object.fromEntries([...entries, ...host.map((name) => [name, { secret: false }])]),
  };
}

function upstreamOf(
  service: ServiceFile,
  ways: readonly SignIn[],
  { baseUrl, host }: Extract<Server, { kind: 'found' }>,
  plans: readonly EntityPlan[],
  entities: JsonObject,
  note: (at: YamlPath, text: string) => void,
): JsonObject {
  const at = ['upstream'];
  for (const { title, guesses, notes = [] } of ways) {
    for (const text of notes) note([...at, 'auth', title], text);
    if (guesses.length > 0) note([...at, 'auth', title], `${guesses.join(', ')} # guessed`);
  }
  note([...at, 'limits'], 'limits # guessed');
  note([...at, 'message'], 'message # guessed: common places of an error text');
  note(
    [...at, 'check'],
    'check: without an identity; an answer with the id of the account would notice another one',
  );
  const fromCredentials = new Map(ways.flatMap(({ headers }) => [...headers]));
  const headers = [
    ...[...fromCredentials].map(([name, field]) => [name, { field }] as const),
    ...Object.entries(sharedHeaders(plans)),
  ];
  const isGraphql = plans.some(({ list }) => list.body.isGraphql);
  if (isGraphql) note([...at, 'failed'], 'failed: GraphQL answers an error with status 200');
  return {
    baseUrl,
    ...(Object.keys(host).length === 0 ? {} : { host }),
    auth: Object.fromEntries(ways.map(({ title, auth }) => [title, auth])),
    ...(headers.length === 0 ? {} : { headers: Object.fromEntries(headers) }),
    check: checkOf(service, plans, sharedHeaders(plans)),
    limits: { concurrency: 2, requestsPerSecond: 2, timeoutMs: 60_000, maxBodyBytes: 67_108_864 },
    message: ['message', 'error.message', 'error_description', 'error', 'errors.0.message', 'detail'],
    ...(isGraphql ? { failed: { path: 'errors' } } : (failedOf(service) ?? {})),
    entities,
  };
}

/** An answer with status 200 that says in a field that it is none. */
function failedOf({ failed }: ServiceFile): JsonObject | null {
  if (failed === null) return null;
  const { field, is, message } = failed;
  return { failed: { path: field, is, ...(message === null ? {} : { code: message }) } };
}

/** Those that every listing has, with one value: the check of the credentials needs them too. */
function sharedHeaders(plans: readonly EntityPlan[]): Readonly<Record<string, string>> {
  const [first, ...others] = plans.map(({ list }) => fixedHeaders(list));
  const all = Object.entries(first ?? {}).filter(([name, value]) =>
    others.every((headers) => headers[name] === value),
  );
  return Object.fromEntries(all);
}

/** The listing that the file prefers for it, or the first one, as a request without parameters. */
function checkOf(
  { operations }: ServiceFile,
  plans: readonly EntityPlan[],
  shared: Readonly<Record<string, string>>,
): JsonObject {
  const isPlain = ({ parents, fixed }: EntityPlan): boolean =>
    parents.length === 0 && [...fixed.values()].every(({ isClock }) => isClock !== true);
  const roots = plans.filter(isPlain);
  const preferred = operations.filter(({ isPreferred }) => isPreferred).map(({ entity }) => entity);
  const plan = roots.find(({ entity }) => preferred.includes(entity)) ?? roots[0] ?? plans[0];
  if (plan === undefined) throw new TypeError('expected at least one entity');
  const { list, fixed, paging } = plan;
  const query: Record<string, string> = {};
  let body: JsonObject = list.body.fixed;
  const headers: Record<string, string> = fixedHeaders(list);
  for (const name of Object.keys(shared)) delete headers[name];
  let path = list.path;
  for (const [name, { value }] of fixed) {
    const param = list.params.find((one) => one.name === name);
    if (param?.place === 'path') path = path.replace(`{${name}}`, () => encodeURIComponent(plainText(value)));
    else if (param?.place === 'query' && typeof value !== 'object') query[name] = plainText(value);
    else if (param?.place === 'header') headers[param.sent] = plainText(value);
    else if (param?.place === 'body') body = withValueAt(body, (param.at ?? name).split('.'), value);
  }
  const size = paging.size?.param;
  if (size?.place === 'body') body = withValueAt(body, (size.at ?? size.name).split('.'), 1);
  const isPost = list.method === 'POST';
  return {
    ...(isPost ? { method: 'POST', safe: true } : {}),
    path,
    ...(Object.keys(query).length === 0 ? {} : { query }),
    ...(isPost && Object.keys(body).length > 0 ? { body } : {}),
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
  };
}
