import * as z from 'zod';
import { Secret } from '../core/secret.ts';
import type { Note } from '../definitions/check-names.ts';
import type { Definition } from '../definitions/definition.ts';
import { strictObject } from '../definitions/schema-problems.ts';
import { noSuch } from '../definitions/suggest-name.ts';
import { checkGlobs, secret } from './texts.ts';

/** Settings of `mcp`, which serves stored records to agents. */
export const mcpFile = strictObject({
  connectors: z.array(z.string().min(1)).default([]).meta({
    description: 'The connectors that agents may read, * stands for any text; none named: all',
  }),
  exclude: z.array(z.string().min(1)).default([]).meta({
    description:
      'What agents never see: an entity or a field of one, such as list_members.email_address; newsletter/list_members is that of one connector',
  }),
  sql: z.boolean().default(false).meta({
    description: 'Whether agents may query what they see by SQL, as with --allow-sql',
  }),
  sqlUser: z.string().min(1).optional().meta({
    description:
      'The role that queries PostgreSQL sinks; it may read what agents see, and no more: mcp grant prints the SQL that makes it',
  }),
  sqlPassword: z.string().min(1).optional().meta(secret('Of that role, best as ${file:path} or ${VARIABLE}')),
});

/** An entity or a field that is hidden from agents; `connector` null: every one; `field` null: the whole entity. */
export type Exclusion = NonNullable<ReturnType<typeof readExclusion>>;

/**
 * Builds the settings of `mcp`. An unknown name is refused, because the entity or field that it was to hide would be
 * shown.
 */
export function buildMcp(
  { connectors: globs, exclude, sql, sqlUser, sqlPassword }: z.output<typeof mcpFile>,
  connectors: ReadonlyMap<string, { readonly definition: Definition }>,
  named: readonly string[],
  note: Note,
) {
  checkGlobs(globs, named, ['mcp', 'connectors'], note);
  const exclusions = exclude.flatMap((text, index) => {
    const exclusion = readExclusion(text);
    const problem = exclusion === null ? shape : problemOf(exclusion, connectors);
    if (problem !== null) note(['mcp', 'exclude', String(index)], problem);
    return exclusion ?? [];
  });
  if (sqlUser === undefined && sqlPassword !== undefined) {
    note(['mcp', 'sqlPassword'], 'is the password of sqlUser, which is missing');
  }
  return {
    connectors: globs,
    exclude: exclusions,
    sql,
    /** The role that queries PostgreSQL sinks. */
    sqlRole:
      sqlUser === undefined
        ? null
        : { user: sqlUser, password: sqlPassword === undefined ? null : new Secret(sqlPassword) },
  };
}

const shape = 'expected an entity or a field such as list_members.email_address';

function readExclusion(text: string) {
  const {
    connector = null,
    entity,
    field = null,
  } = /^(?:(?<connector>[^/.]+)\/)?(?<entity>[^/.]+)(?:\.(?<field>[^/]+))?$/.exec(text)?.groups ?? {};
  return entity === undefined ? null : { connector, entity, field };
}

function problemOf(
  { connector, entity, field }: Exclusion,
  connectors: ReadonlyMap<string, { readonly definition: Definition }>,
) {
  const chosen = connector === null ? [...connectors.values()] : [connectors.get(connector)];
  const entities = chosen.flatMap((one) => [...(one?.definition.entities.values() ?? [])]);
  const tables = entities.flatMap(({ table, explodedTable, explode }) => [
    { ...table, exploded: explode?.field },
    ...(explodedTable === null ? [] : [{ ...explodedTable, exploded: undefined }]),
  ]);
  if (connector !== null && !connectors.has(connector)) {
    return noSuch('connector in the config', connector, [...connectors.keys()]);
  }
  const named = tables.filter((table) => table.entity === entity);
  if (named.length === 0) {
    const where = connector ?? 'the definitions of the config';
    return noSuch(`entity in ${where}`, entity, [...new Set(tables.map((table) => table.entity))]);
  }
  if (field === null) return null;
  if (named.some(({ key }) => key.includes(field))) {
    return `${field} is a part of the key of ${entity}: mask it (mask of the connector), or exclude ${entity}`;
  }
  const fields = named.flatMap(({ columns, exploded }) => [
    ...columns.map(({ name }) => name),
    ...(exploded === undefined ? [] : [exploded]),
  ]);
  return fields.includes(field) ? null : noSuch(`field in ${entity}`, field, [...new Set(fields)]);
}
