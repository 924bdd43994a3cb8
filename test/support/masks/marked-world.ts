import { randomBytes, randomInt } from 'node:crypto';
import { join } from 'node:path';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { SampleAccount, SampleSize } from '../../../src/sample/sample-account.ts';
import { listingOf } from '../listing-of.ts';
import { ApiError } from '../../../src/service/api-error.ts';
import { type CliWorld, openCliWorld } from '../cli-world.ts';
import { askPostgres, sharedPostgres } from '../postgres.ts';
import { isLong, type triedSinks } from '../trials.ts';
import { contentsOf, openSearchFor } from './find-values.ts';
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';

export type Marks = ReturnType<typeof openMarks>;

/** Random values that stand in records, by the path that they stand at. */
export function openMarks() {
  const valuesByPath = new Map<string, string[]>();
  const letters = (): string =>
    Array.from({ length: 12 }, () => String.fromCharCode(97 + randomInt(26))).join('');
  const make: Record<string, () => string> = {
    email: () => `${letters()}.Ünal@${letters()}.example`,
    phone: () => `+49 ${randomInt(100_000, 999_999)} ${randomInt(100_000, 999_999)}`,
    text: () => `"${letters()}"/${randomBytes(4).toString('hex')}`,
  };
  return {
    value: (path: string, kind: 'email' | 'phone' | 'text'): string => {
      const made = make[kind]?.() ?? '';
      valuesByPath.set(path, [...(valuesByPath.get(path) ?? []), made]);
      return made;
    },
    values: () => [...valuesByPath.values()].flat(),
    at: (path: string) => valuesByPath.get(path) ?? [],
  };
}

export const marked = isLong ? 1_000 : 40;

/** The account with a mark in every place of a record where a value can be. Each record keeps its own. */
export function markedAccount(marks: Marks) {
  const madeById = new Map<string, JsonObject>();
  const markOfPerson = new Map<string, JsonValue>();
  /** The campaign whose recipients the service does not show, with a value in its words. */
  let refused: JsonValue | undefined;
  const once = (id: string, make: () => JsonObject): JsonObject => {
    const known = madeById.get(id) ?? (madeById.size < marked ? make() : {});
    madeById.set(id, known);
    return known;
  };
  const memberOf = (record: JsonObject): JsonObject => ({
    ...record,
    ...once(`member ${JSON.stringify(record['id'])}`, () => ({
      email_address: marks.value('email_address', 'email'),
      full_name: marks.value('full_name', 'text'),
      ip_signup: marks.value('ip_signup', 'text'),
      merge_fields: {
        PHONE: marks.value('merge_fields.PHONE', 'phone'),
        FNAME: marks.value('merge_fields.FNAME', 'text'),
      },
      // Of another type than the definition has it, and fields that it does not have.
      vip: marks.value('vip', 'text'),
      nickname: marks.value('nickname', 'text'),
      contacts: [
        { email: marks.value('contacts.email', 'email') },
        [{ email: marks.value('contacts.email', 'email') }],
      ],
    })),
  });
  /** A part of keys, which is hashed in each of them. */
  const personOf = (id: JsonValue = null, field: string): JsonObject => {
    const person = JSON.stringify(id);
    const isMarked = markOfPerson.has(person) || markOfPerson.size < marked;
    if (isMarked && !markOfPerson.has(person)) markOfPerson.set(person, marks.value('person', 'text'));
    return { [field]: markOfPerson.get(person) ?? id };
  };
  const recipientOf = (record: JsonObject): JsonObject => ({
    ...record,
    ...personOf(record['email_id'], 'email_id'),
    ...once(`recipient ${JSON.stringify(record['email_id'])}`, () => ({
      email_address: marks.value('recipient', 'email'),
      activity: ((record['activity'] ?? []) as readonly JsonObject[]).map((event) => ({
        ...event,
        ip: marks.value('activity.ip', 'text'),
      })),
    })),
  });
  return (account: SampleAccount): SampleAccount => {
    const edits: Readonly<Record<string, (record: JsonObject) => JsonObject>> = {
      list_members: memberOf,
      email_activity: recipientOf,
      segment_members: (record) => ({ ...record, ...personOf(record['id'], 'id') }),
      unsubscribes: (record) => ({ ...record, ...personOf(record['email_id'], 'email_id') }),
    };
    const edit = (entity: string, record: JsonObject): JsonObject => edits[entity]?.(record) ?? record;
    return {
      ...account,
      list: (entity, params) => {
        if (entity === 'email_activity' && (refused ??= params['campaign_id']) === params['campaign_id']) {
          throw new ApiError(400, `the recipient ${marks.value('words', 'text')} is locked`);
        }
        const listing = account.list(entity, params);
        // One that no key identifies goes to quarantine, whole.
        const odd =
          entity === 'list_members' && listing.slice(0, 1).length > 0
            ? [{ ...memberOf({ id: `odd ${JSON.stringify(params['list_id'])}` }), id: null }]
            : [];
        const records = listing.slice(0, Number.POSITIVE_INFINITY).map((record) => edit(entity, record));
        const isMarked = entity === 'list_members' && records.length > 0;
        const said = isMarked ? once('metadata', () => ({ said: marks.value('metadata', 'text') })) : {};
        return listingOf(
          [...records, ...odd],
          isMarked ? { ...listing.metadata, ...said } : listing.metadata,
        );
      },
      get: (entity, params) => {
        const record = account.get(entity, params);
        return record === null ? null : edit(entity, record);
      },
    };
  };
}

export const maskedMembers: Readonly<Record<string, string>> = {
  email_address: '{ hash: { as: email } }',
  full_name: 'drop',
  ip_signup: '{ truncate: 3 }',
  'merge_fields.PHONE': '{ hash: { as: phone } }',
  'merge_fields.*': 'hash',
  vip: 'hash',
  nickname: 'hash',
  'contacts.email': '{ hash: { as: email } }',
};

/** With one path left out, the search must find the values there. */
export function maskWithout(left: string | null): string {
  const fields = Object.entries(maskedMembers).filter(([path]) => path !== left);
  return `    mask:
      list_members:
        fields: { id: keep, ${fields.map(([path, rule]) => `"${path}": ${rule}`).join(', ')} }
      email_activity:
        fields: { email_id: hash, email_address: { hash: { as: email } }${left === 'activity.ip' ? '' : ', activity.ip: hash'} }
      segment_members: { fields: { id: hash } }
      unsubscribes: { fields: { email_id: hash } }
`;
}

/** The values that are in what was printed, in a file, or in a file of the server; with where they were found last. */
export async function foundIn(
  world: Pick<CliWorld, 'folder'>,
  sink: (typeof triedSinks)[number],
  printed: string,
  values: readonly string[],
  /**
   * Purged: of a server without what no purge reaches, its log and its statistics. `database`: of the server only the
   * files of this database, by its address.
   */
  {
    isPurged = false,
    database = null,
  }: { readonly isPurged?: boolean; readonly database?: string | null } = {},
): Promise<ReadonlyMap<string, string>> {
  const search = openSearchFor(values);
  const places = new Map<string, string>();
  const look = (place: string, bytes: Buffer): void => {
    for (const value of search(bytes)) places.set(value, place);
  };
  look('what was printed', Buffer.from(printed));
  for (const { place, bytes } of contentsOf(world.folder)) look(place, bytes);
  if (sink === 'postgres') {
    const { data, url } = await sharedPostgres();
    const rows = await askPostgres(
      database ?? url,
      'CHECKPOINT',
      `SELECT pg_relation_filepath(oid) AS file,
         'base/' || (SELECT oid FROM pg_database WHERE datname = current_database()) AS base FROM pg_class
       WHERE oid = 'pg_statistic'::regclass OR oid = (SELECT reltoastrelid FROM pg_class WHERE oid = 'pg_statistic'::regclass)`,
    );
    const outOfReach = ['pg_wal/', ...rows.map(({ file }) => String(file))].map((name) => join(data, name));
    const base = String(rows[0]?.['base']);
    for (const { place, bytes } of contentsOf(database === null ? data : join(data, base))) {
      if (isPurged && outOfReach.some((one) => place.startsWith(one))) continue;
      look(place, bytes);
    }
  }
  return places;
}

/** A sink of what the marked account had before there was a mask: deleted rows, versions, lines, quarantine. */
export async function openClearWorld(
  sink: (typeof triedSinks)[number],
  {
    sinkSettings,
    more = '',
    size = isLong ? { members: marked } : 'tiny',
  }: { readonly sinkSettings?: string; readonly more?: string; readonly size?: SampleSize } = {},
) {
  const marks = openMarks();
  const world = await openCliWorld({
    sink,
    ...(sinkSettings === undefined ? {} : { sinkSettings }),
    size,
    wrap: markedAccount(marks),
    isWhole: true,
    settings: sink === 'jsonl' ? '' : '    history: true\n',
  });
  appendFileSync(world.config, `mask: { key: "${randomBytes(32).toString('base64')}" }\n${more}`);
  for (const revision of [1, 2, 3]) {
    world.moveTo(revision);
    await world.cli('sync', 'newsletter', '--full', '--allow-deletes');
  }
  await world.cli('sync', 'newsletter', '--full', '--max-calls', '5');
  return {
    world,
    marks,
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  };
}

/** Gives the config of a clear world its masks. */
export function maskAll({ config }: Pick<CliWorld, 'config'>): void {
  const text = readFileSync(config, 'utf8');
  writeFileSync(config, text.replace('  wiki:\n', `${maskWithout(null)}  wiki:\n`));
}
