import { resolve } from 'node:path';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../core/json.ts';
import { Secret } from '../../../core/secret.ts';
import { usage } from '../../../core/usage-error.ts';
import { credentialProblems, shapeText } from '../../../definitions/credential-problems.ts';
import type { Definition } from '../../../definitions/definition.ts';
import { readSecretFile } from '../../../settings/read-secret-file.ts';
import type { CommandContext } from '../../command-context.ts';
import { readInput } from '../../read-input.ts';

const maxBytes = 65_536;

/**
 * Credentials for a new connector: from a file that only its owner can read, or from standard input (`-`, or no file). Their texts
 * are secrets from here on. Null: a type of which nothing is known, and nothing was given. Throws USAGE, quoting nothing.
 */
export async function readCredentials(
  context: CommandContext,
  file: string | null,
  definition: Definition | null,
): Promise<JsonObject | null> {
  const needsNone = definition === null || definition.credentials.length === 0;
  if (file === null && (needsNone || context.input().isTTY === true)) {
    if (needsNone) return null;
    const ways = definition.credentials.map(shapeText).join(' or ');
    throw usage(`A connector of ${definition.name} needs credentials: ${ways}. Give --credentials-file.`);
  }
  const isInput = file === null || file === '-';
  const from = isInput ? 'standard input' : resolve(context.cwd, file);
  const text = isInput ? await readInput(context.input(), maxBytes, context.signal) : textOf(from);
  const credentials = parse(text, from);
  for (const secret of textsIn(credentials)) context.scrubber.register(new Secret(secret));
  if (definition !== null) checkCredentials(definition, credentials, from);
  return credentials;
}

function checkCredentials(definition: Definition, credentials: JsonObject, from: string): void {
  const problems = credentialProblems(definition, credentials);
  if (problems.length === 0) return;
  const said = problems.map(({ field, message }) => (field === null ? message : `${field}: ${message}`));
  const { credentials: ways } = definition;
  const others = ways.length === 1 ? '' : ` Ways to sign in: ${ways.map(shapeText).join(' or ')}.`;
  throw usage(`The credentials in ${from} cannot be used. ${said.join(' ')}${others}`);
}

function textOf(file: string): string {
  const read = readSecretFile(file);
  if (read.ok) return read.value;
  throw usage(`--credentials-file: ${read.why}.`);
}

function parse(text: string, from: string): JsonObject {
  const expected = `Expected a JSON object of texts in ${from}, such as {"api_key": "..."}`;
  let value: JsonValue;
  try {
    // `as`: JSON.parse gives JSON and nothing else.
    value = JSON.parse(text) as JsonValue;
  } catch (error) {
    // Only the position: the message itself quotes the text, which is secret.
    const [where = ''] = / at position \d+/.exec(error instanceof Error ? error.message : '') ?? [];
    throw usage(`${expected}, got ${text.trim() === '' ? 'nothing' : `invalid JSON${where}`}.`);
  }
  if (!isJsonObject(value)) throw usage(`${expected}, got other JSON.`);
  return value;
}

/** At any depth: what a foreign type takes is known to its service alone. */
function textsIn(value: JsonValue): readonly string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}
