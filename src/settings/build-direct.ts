import { Secret } from '../core/secret.ts';
import type { Note } from '../definitions/check-names.ts';
import { credentialProblems, shapeText } from '../definitions/credential-problems.ts';
import { mapOf } from '../definitions/deep-freeze.ts';
import type { Definition } from '../definitions/definition.ts';
import type { Sink } from './build-sinks.ts';
import type { ConnectorFile } from './connector-file.ts';

interface DirectPlace {
  readonly at: readonly string[];
  readonly note: Note;
  /** Where a sign-in of the connector is stored; null: nowhere. */
  readonly signIns?: {
    readonly connector: string;
    /** Absent after a problem. */
    readonly sink: Sink | undefined;
    readonly key: Secret | null;
  } | null;
}

/**
 * The service itself, by credentials of the config; null after a problem. No value is repeated in a problem: all are
 * secret.
 */
export function buildDirect(
  { id, workspace }: Pick<ConnectorFile, 'id' | 'workspace'>,
  given: Readonly<Record<string, string>>,
  definition: Definition,
  { at: connectorAt, note, signIns = null }: DirectPlace,
) {
  const at = [...connectorAt, 'credentials'];
  if (id !== undefined || workspace !== undefined) {
    note(at, 'expected either credentials (to read the service itself) or id or workspace, got both');
    return null;
  }
  const { upstream, credentials: shapes, name } = definition;
  if (upstream === null) {
    note(
      at,
      `the connector type ${name} does not say how its service is called, so only an API can read it: expected id or workspace`,
    );
    return null;
  }
  let isSound = true;
  for (const { field, message } of credentialProblems(definition, given)) {
    isSound = false;
    // About a field that is missing in this environment, nothing is noted: that is reported by itself.
    const ways =
      field === null && shapes.length > 1
        ? `; the ways to sign in: ${shapes.map(shapeText).join(' or ')}`
        : '';
    note(field === null ? at : [...at, field], `${plain(message)}${ways}`, ...restsOn(field, at, given));
  }
  // What is missing in this environment is an empty text; which way is meant shows all the same.
  const filled = Object.fromEntries(Object.entries(given).map(([name, value]) => [name, value || 'missing']));
  const way = shapes.find((shape) => credentialProblems({ credentials: [shape] }, filled).length === 0);
  const auth = upstream.auth.get(way?.title ?? '');
  if (auth?.kind === 'refresh' && auth.rotates && given[auth.refreshToken] !== undefined) {
    isSound = false;
    note(
      [...at, auth.refreshToken],
      `each use of it makes another one, which a config has no place for: leave it out (the connector works until ${auth.accessToken} ends), use ${otherWays(definition, way?.title)}, or give the credentials to "connector-sync serve", which stores the new ones`,
    );
  }
  const hasSignIn = auth?.kind === 'authorizationCode' && signIns?.sink !== undefined;
  const signIn = hasSignIn ? { connector: signIns.connector, sink: signIns.sink, key: signIns.key } : null;
  if (signIn?.sink.type === 'postgres' && signIn.key === null) {
    isSound = false;
    note(
      at,
      'expected signIns.key in the config: it seals what "login" stores in the PostgreSQL sink. Make one with "openssl rand -base64 32"',
      ['signIns'],
    );
  }
  /** Fit one of the definition's ways to sign in, unless one is missing here. */
  const credentials: ReadonlyMap<string, Secret> = mapOf(given, (value) => new Secret(value));
  return isSound || Object.values(given).includes('')
    ? ({ kind: 'direct', credentials, signIn } as const)
    : null;
}

function restsOn(
  field: string | null,
  at: readonly string[],
  given: Readonly<Record<string, string>>,
): readonly (readonly string[])[] {
  return field === null || given[field] === undefined ? Object.keys(given).map((name) => [...at, name]) : [];
}

/** As the other problems of a config begin and end. */
function plain(message: string): string {
  return `${message.charAt(0).toLowerCase()}${message.slice(1).replace(/\.$/, '')}`;
}

function otherWays({ credentials }: Definition, title: string | undefined): string {
  const others = credentials.filter((shape) => shape.title !== title).map(shapeText);
  return others.length === 0 ? 'another way to sign in' : others.join(' or ');
}
