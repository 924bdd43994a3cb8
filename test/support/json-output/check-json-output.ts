import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { commands } from '../../../src/cli/commands.ts';
import { outputVersion } from '../../../src/cli/output/json-text.ts';

const root = path.resolve(import.meta.dirname, '../../..');
/** What they print besides documents are stored records, or a JSON Schema. */
const ofRecords = ['export', 'search', 'config'];

type Schema = Readonly<Record<string, unknown>>;
const names = new Set<string>(commands.map(({ name }) => name));
let validator: ValidateFunction | null = null;

/**
 * Throws where a command has printed a document that the schema in docs/reference does not have, or a member that the
 * schema does not name.
 */
export function checkJsonOutput(args: readonly string[], stdout: string): void {
  const name = args.find((arg) => names.has(arg));
  if (!args.includes('--json') || args.includes('--help') || name === undefined) return;
  for (const line of stdout.split('\n').filter((one) => one !== '')) {
    if (!line.startsWith('{"version":') && ofRecords.includes(name)) continue;
    const { version, ...document } = JSON.parse(line) as Record<string, unknown>;
    if (version !== outputVersion) throw new Error(`${args.join(' ')} printed no version: ${line}`);
    validator ??= openValidator();
    if (name === 'config' || validator(document)) continue;
    throw new Error(
      `docs/reference/json-output.schema.json does not fit what ${args.join(' ')} printed: ${line.slice(0, 2_000)}`,
    );
  }
}

/** Of documents without their version, but for configs, which may hold anything. */
function openValidator(): ValidateFunction {
  const text = readFileSync(path.join(root, 'docs/reference/json-output.schema.json'), 'utf8');
  const { $defs, anyOf } = JSON.parse(text) as { readonly $defs: Schema; readonly anyOf: readonly Schema[] };
  const documents = anyOf.filter(({ $ref }) => $ref !== '#/$defs/config-commands');
  return new Ajv2020({ strict: false }).compile({ anyOf: documents, $defs: closed($defs) });
}

/** The same without members that it does not name. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const members = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]));
  const isClosed =
    members['type'] === 'object' && 'properties' in members && !('additionalProperties' in members);
  return isClosed ? { ...members, additionalProperties: false } : members;
}
