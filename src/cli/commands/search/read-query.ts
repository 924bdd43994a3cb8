import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../core/json.ts';
import { usage } from '../../../core/usage-error.ts';
import type { Entity } from '../../../definitions/definition.ts';
import { parseJsonText } from '../../../http/lossless-json.ts';
import { listOf, pathOf, readSort } from '../../../search/query-texts.ts';
import { type CommandContext, readInput, wholeNumber } from '../../command.ts';

type QueryFlags = Readonly<Record<'filter' | 'sort' | 'limit' | 'cursor' | 'fields', string | undefined>>;

const maxBytes = 1024 * 1024;
const mostRecords = 1_000;

/**
 * The parameters of a search as the API takes them. What they mean is read where the search runs; here only what is no
 * JSON, no number and no list is refused, with USAGE.
 */
export async function readQuery(
  context: CommandContext,
  entity: Entity,
  flags: QueryFlags,
  defaultLimit: number,
): Promise<JsonObject> {
  const { filter, sort, limit, cursor, fields } = flags;
  return {
    query: {
      ...(filter === undefined ? {} : { filter: await readFilter(context, filter) }),
      ...(sort === undefined ? {} : { sort: readSort(sort, '--sort') }),
    },
    // Always sent: services disagree about what it is when it is left out.
    limit: limit === undefined ? defaultLimit : wholeNumber('--limit', limit, mostRecords, 1),
    ...(cursor === undefined ? {} : { cursor }),
    ...(fields === undefined
      ? {}
      : { fields: listOf(fields, '--fields').map((name) => pathOf(entity, name)) }),
  };
}

/** JSON, `@file`, or `-` for standard input. */
export async function readFilter(
  context: CommandContext,
  given: string,
  flag = '--filter',
): Promise<JsonObject> {
  const text =
    given === '-'
      ? await readInput(context.input(), maxBytes, context.signal)
      : given.startsWith('@')
        ? await textOf(resolve(context.cwd, given.slice(1)))
        : given;
  let filter: JsonValue;
  try {
    filter = parseJsonText(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw usage(`${flag}: expected JSON such as {"eq": {"status": "sent"}}, got invalid JSON: ${why}`);
  }
  if (!isJsonObject(filter)) throw usage(`${flag}: expected a JSON object, got other JSON.`);
  return filter;
}

async function textOf(file: string): Promise<string> {
  try {
    const { size } = await stat(file);
    if (size > maxBytes) throw usage(`--filter: expected at most ${maxBytes} bytes, ${file} has ${size}.`);
    return await readFile(file, 'utf8');
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error;
    throw usage(`--filter: ${file} cannot be read: ${error.message}.`);
  }
}
