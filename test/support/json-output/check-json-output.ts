import { Ajv2020 } from 'ajv/dist/2020.js';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { commands } from '../../../src/cli/commands.ts';
import { outputVersion } from '../../../src/cli/output/json-text.ts';

const root = path.resolve(import.meta.dirname, '../../..');
/** What they print besides documents are stored records, or a JSON Schema. */
const ofRecords = ['export', 'search', 'config'];

type Schema = Readonly<Record<string, unknown>>;
const names = new Set<string>(commands.map(({ name }) => name));
let schemas: ReturnType<typeof openSchemas> | null = null;

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
    if (name === 'config' || isKnown(name, document)) continue;
    throw new Error(
      `docs/reference/json-output.schema.json does not fit what ${args.join(' ')} printed: ${line.slice(0, 2_000)}`,
    );
  }
}

/** A schema is compiled when it is first tried: that of the command's own file, then the ones that fit before. */
function isKnown(name: string, document: unknown): boolean {
  const { ajv, places } = (schemas ??= openSchemas());
  const own = `#/$defs/${name}`;
  const tried = [...places.filter((place) => place === own), ...places];
  const found = tried.find((place) => ajv.getSchema(`output${place}`)?.(document) === true);
  if (found !== undefined) places.unshift(...places.splice(places.indexOf(found), 1));
  return found !== undefined;
}

/** Of documents without their version, but for configs, which may hold anything. */
function openSchemas() {
  const text = readFileSync(path.join(root, 'docs/reference/json-output.schema.json'), 'utf8');
  const { $defs, anyOf } = JSON.parse(text) as {
    readonly $defs: Schema;
    readonly anyOf: readonly { readonly $ref: string }[];
  };
  const ajv = new Ajv2020({ strict: false, inlineRefs: false, code: { optimize: false } });
  ajv.addSchema({ $id: 'output', $defs: closed($defs) });
  return {
    ajv,
    places: anyOf.map(({ $ref }) => $ref).filter((place) => place !== '#/$defs/config-commands'),
  };
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
