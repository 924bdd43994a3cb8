import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { commands } from '../../../src/cli/commands.ts';
import { outputVersion } from '../../../src/cli/output/json-text.ts';

const root = path.resolve(import.meta.dirname, '../../..');
/** What they print besides documents are stored records, or a JSON Schema. */
const ofRecords = ['export', 'search', 'config'];

type Schema = Readonly<Record<string, unknown>>;
const ajv = new Ajv2020({ strict: false, allErrors: true });
const names = new Set(commands.map(({ name }) => name));
const validators = new Map<string, ValidateFunction>();
let added = false;

/**
 * Throws where a command has printed a document that its schema in docs/reference does not have, or a member that the
 * schema does not name.
 */
export function checkJsonOutput(args: readonly string[], stdout: string): void {
  const name = args.find((arg) => names.has(arg as never));
  if (!args.includes('--json') || args.includes('--help') || name === undefined) return;
  for (const line of stdout.split('\n').filter((one) => one !== '')) {
    if (!line.startsWith('{"version":') && ofRecords.includes(name)) continue;
    const { version, ...document } = JSON.parse(line) as Record<string, unknown>;
    if (version !== outputVersion) throw new Error(`${args.join(' ')} printed no version: ${line}`);
    const validate = validatorOf(name);
    if (validate(document)) continue;
    const problems = ajv.errorsText(validate.errors?.slice(0, 20));
    throw new Error(
      `docs/reference/json-output.schema.json does not fit what ${args.join(' ')} printed: ${line.slice(0, 2_000)}\n${problems}`,
    );
  }
}

function validatorOf(name: string): ValidateFunction {
  if (!added) {
    const text = readFileSync(path.join(root, 'docs/reference/json-output.schema.json'), 'utf8');
    const { $defs } = JSON.parse(text) as { readonly $defs: Schema };
    ajv.addSchema({ $id: 'output', $defs: closed($defs) });
    added = true;
  }
  const validate = validators.get(name) ?? ajv.getSchema(`output#/$defs/${name}`);
  if (validate === undefined) {
    throw new Error(`docs/reference/json-output.schema.json has no schema for ${name}`);
  }
  validators.set(name, validate);
  return validate;
}

/** The same for documents without their version, and without members that it does not name. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const { anyOf, ...rest } = schema as Schema;
  const isCommand = anyOf !== undefined && 'required' in rest;
  const own = isCommand ? { anyOf } : (schema as Schema);
  const members = Object.fromEntries(Object.entries(own).map(([key, value]) => [key, closed(value)]));
  const isClosed = own['type'] === 'object' && 'properties' in own && !('additionalProperties' in own);
  return isClosed ? { ...members, additionalProperties: false } : members;
}
