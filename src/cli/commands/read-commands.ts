import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import type { Clock } from '../../core/clock.ts';
import { SyncError, usage } from '../../core/errors.ts';
import type { JsonValue } from '../../core/json.ts';
import { hiddenWords, type Params } from '../../core/records.ts';
import { checkParams, convertParams, missingParams, fixedParamsAt } from '../../definitions/params.ts';
import { type ActionName, type Entity, pagingParams } from '../../definitions/definition.ts';
import { wholeJson } from '../../core/canonical-json.ts';
import type { TriedCall } from '../../engine/try-listing.ts';
import type { SeenExchange } from '../../http/exchange.ts';
import { entityTarget } from '../../settings/choices.ts';
import type { LocalSettings } from '../../settings/settings.ts';
import { parseSize } from '../../settings/texts.ts';
import { safeBase } from '../../sinks/files/safe-file-name.ts';
import type { WrittenBytes } from '../../sinks/files/write-whole-file.ts';
import type { IncomingFile } from '../../source/source.ts';
import { counted, escaped, printable } from '../../telemetry/format.ts';
import { type AddCommand, command } from '../command.ts';
import { openPatientApp } from '../output/show-run.ts';
import type { Terminal } from '../output/terminal.ts';
import { isReplaceable, writeStreamed } from '../output/write-files.ts';

export const list = readCommand('list', 'newsletter/list_members --param list_id=a1 --param count=5');

export const get = readCommand('get', 'newsletter/campaigns --param campaign_id=c1');

function readCommand(action: 'list' | 'get', example: string): AddCommand {
  return command({
    argument: ['<connector/entity>', 'such as newsletter/campaigns'],
    options: { '-p, --param <name=value...>': 'a declared parameter; objects and arrays as JSON' },
    help: `\nExample:\n  $ connector-sync ${action} ${example}`,
    run: async (context, flags, target) => {
      const settings = await context.settings('access');
      const { clock, terminal, signal } = context;
      const { connector, entity, params } = readTarget(settings, action, target, flags.param, clock);
      await using app = await openPatientApp(context, settings, action);
      await using source = await app.openSource(connector, signal);
      if (action === 'get') {
        const record = await source.get({ entity: entity.name, params }, signal);
        if (record === null) {
          throw new SyncError(`${target}: there is no such record.`, { code: 'NOT_FOUND', recovery: 'stop' });
        }
        terminal.printJson({ record });
        terminal.print(lineOf(record));
        return;
      }
      const page = await source.list(
        { entity: entity.name, params: withOpenToken(entity, params), isRoot: entity.parents.length === 0 },
        signal,
      );
      const token = page.next?.token ?? null;
      // Seals the token as for a person, who can pass it on in the same form.
      const more = token === null ? null : entity.mask === null ? token : sealed + entity.mask.seal(token);
      terminal.printJson({ records: [...page.records], next: page.next && { ...page.next, token: more } });
      for (const record of page.records) terminal.print(lineOf(record));
      terminal.note(
        `${counted(page.records.length, 'record')}${more === null ? '' : `; the next page's token: ${printable(more)}`}`,
      );
    },
  });
}

/** JSON escapes C0 controls; other terminal control characters are escaped too, so that the line stays exact. */
function lineOf(record: JsonValue): string {
  return escaped(wholeJson(record));
}

/** Parses one call on the command line. Throws USAGE with the known names. `paramTexts`: `name=value` each. */
function readTarget(
  settings: LocalSettings,
  action: ActionName,
  target: string,
  paramTexts: readonly string[],
  clock: Clock,
) {
  const { connector, entity, isExploded } = entityTarget(settings, target);
  if (isExploded) throw usage(`${target} holds elements of ${entity.name}: name ${entity.name} instead.`);
  const declared = entity.actions.get(action);
  if (declared === undefined) {
    throw usage(`${entity.name} has the actions ${[...entity.actions.keys()].join(', ')}, not ${action}.`);
  }
  const given = Object.fromEntries(paramTexts.map(parseParam));
  const problems = [
    ...checkParams(declared, given),
    ...missingParams(declared, { ...entity.fixedParams, ...given }).map(
      (name) => `${name}: is missing, give it with --param`,
    ),
  ];
  if (problems.length > 0) throw usage(`${action} ${target}: ${problems.join('; ')}`);
  const fixed = action === 'list' ? fixedParamsAt(entity, clock.now()) : {};
  return { connector, entity, params: { ...fixed, ...convertParams(declared, given) } };
}

/** Texts are converted to the declared types later; JSON stays JSON. */
export function parseParam(text: string): readonly [string, JsonValue] {
  const at = text.indexOf('=');
  if (at < 1) throw usage(`--param: expected name=value, got "${text}".`);
  const value = text.slice(at + 1);
  return [text.slice(0, at), /^[[{]/.test(value) ? parseJson(value) : value];
}

function parseJson(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return text; // Not JSON after all; the parameter's check says what was expected.
  }
}

/* Tokens of pages are made by a service, and may hold values of records: those of a masked entity are not shown. */

type Masked = Pick<Entity, 'mask' | 'pagination'>;

const sealed = 'sealed:';

/** Opens the token that a person was shown. Throws USAGE for one that was sealed with another key. */
function withOpenToken(entity: Masked, params: Params): Params {
  const { mask } = entity;
  const name = tokenParam(entity);
  const given = name === null ? undefined : params[name];
  if (mask === null || name === null || typeof given !== 'string' || !given.startsWith(sealed)) return params;
  const token = mask.open(given.slice(sealed.length));
  if (token !== null) return { ...params, [name]: token };
  throw usage(`${name} was sealed with another mask.key, or was changed: begin with the first page again.`);
}

/** Removes tokens from a call of a trial, so that it may be shown. */
export function withoutTokens<Call extends TriedCall & { readonly exchanges: readonly SeenExchange[] }>(
  entity: Masked,
  call: Call,
): Call {
  if (entity.mask === null) return call;
  const { request, page, next, exchanges } = call;
  const name = tokenParam(entity);
  const hidden = <Request extends TriedCall['request']>(of: Request): Request =>
    name === null || !Object.hasOwn(of.params, name)
      ? of
      : { ...of, params: { ...of.params, [name]: hiddenWords } };
  const hasToken = (page?.next?.token ?? null) !== null;
  // A next link may contain the token in any part.
  const isBehindToken = name !== null && Object.hasOwn(request.params, name);
  const shownUrl = (url: string): string =>
    isBehindToken ? `${new URL(url).origin}/${hiddenWords}` : (url.split('?', 1)[0] ?? '');
  return {
    ...call,
    request: hidden(request),
    page: hasToken && page?.next ? { ...page, next: { ...page.next, token: hiddenWords } } : page,
    next: next.kind === 'call' ? { ...next, request: hidden(next.request) } : next,
    exchanges: exchanges.map((seen) => ({ ...seen, url: shownUrl(seen.url), body: null })),
  };
}

function tokenParam({ pagination }: Masked): string | null {
  return pagingParams(pagination).find(({ role }) => role === 'tokenParam')?.name ?? null;
}

interface Downloaded extends WrittenBytes {
  readonly name: string | null;
  readonly contentType: string | null;
  /** Null: the file is written to standard output. */
  readonly file: string | null;
}

export const download = command({
  argument: ['<connector/entity>', 'such as library/attachments'],
  options: {
    '-p, --param <name=value...>': 'a declared parameter',
    '-o, --output <file>':
      "where to: a file, or - for standard output (default: the file's own name, in this folder)",
    '--force': 'replace the file of --output if it exists',
    '--max-bytes <size>': 'refuse a larger file: bytes, or a size such as 500MB (default: any size)',
  },
  help: `
A file is written completely or not at all. Standard output gets the bytes as they come: a transfer that breaks fails and is not retried.

Examples:
  $ connector-sync download library/attachments --param attachment_id=a1
  $ connector-sync download library/attachments --param attachment_id=a1 --output - | sha256sum`,
  run: async (context, flags, target) => {
    const { clock, terminal, signal, cwd } = context;
    const settings = await context.settings('access');
    const { connector, entity, params } = readTarget(settings, 'download', target, flags.param, clock);
    const maxBytes = maxBytesOf(flags.maxBytes);
    const receive =
      flags.output === '-' ? toStdout(terminal) : toFile(flags.output ?? null, cwd, flags.force);
    await using app = await openPatientApp(context, settings, 'download');
    await using source = await app.openSource(connector, signal);
    const done = await source.download(
      { entity: entity.name, params, size: null, maxBytes },
      receive,
      signal,
    );
    const { file, bytes, sha256 } = done;
    const facts = `${counted(bytes, 'byte')}  sha256 ${sha256}`;
    if (file === null) {
      terminal.note(`${printable(done.name ?? 'file')}  ${facts}`);
      return;
    }
    terminal.printJson(done);
    terminal.print(`${printable(file)}  ${facts}`);
  },
});

function maxBytesOf(maxBytes: string | undefined): number {
  if (maxBytes === undefined) return Number.MAX_SAFE_INTEGER;
  const bytes = /^\d+$/.test(maxBytes) ? Number(maxBytes) : parseSize(maxBytes);
  if (bytes !== null && Number.isSafeInteger(bytes) && bytes > 0) return bytes;
  throw usage(`--max-bytes: expected bytes, or a size such as 500MB, got "${maxBytes}".`);
}

/** Throws USAGE before any call if the file may not be written. */
function toFile(
  output: string | null,
  cwd: string,
  isForced: boolean,
): (file: IncomingFile) => Promise<Downloaded> {
  if (output !== null) checkFree(resolve(cwd, output), isForced);
  // Only the service knows the file's name.
  else if (isForced) throw usage('--force needs --output: name the file that may be replaced.');
  return async ({ name, contentType, bytes }) => {
    const file = resolve(cwd, output ?? safeBase(name ?? ''));
    checkFree(file, isForced);
    const checked = checkedAtEnd(bytes, () => checkFree(file, isForced));
    return { name, contentType, file, ...(await writeStreamed(file, checked, advice)) };
  };
}

function checkFree(file: string, isForced: boolean): void {
  if (!isReplaceable(file) || isForced) return;
  throw usage(
    `${file} already exists; not overwritten. Name another file with --output, or replace it with --force.`,
  );
}

const advice = 'Free space there, or name another place with --output.';

/** Checks again at the end: another process may have created the file during the download. */
async function* checkedAtEnd(bytes: AsyncIterable<Uint8Array>, check: () => void) {
  yield* bytes;
  check();
}

/**
 * Writes a file to standard output. Bytes that were sent cannot be taken back, so there is no second attempt after the
 * first of them.
 */
function toStdout(terminal: Terminal): (file: IncomingFile) => Promise<Downloaded> {
  if (terminal.columns() !== null) {
    throw usage(
      'File contents are not shown on a terminal. Pipe them into a program, or name a file with --output.',
    );
  }
  let sent = 0;
  return async ({ name, contentType, bytes }) => {
    if (sent > 0) {
      throw new SyncError(
        `The file was cut after ${sent} bytes, which were already written to standard output. Discard them and try again; with --output <file> the download is retried.`,
        { code: 'FILE_INVALID', recovery: 'stop' },
      );
    }
    const hash = createHash('sha256');
    for await (const chunk of bytes) {
      hash.update(chunk);
      sent += chunk.byteLength;
      // Stops if the reader has closed the output, or its disk is full: the terminal knows which.
      if (!(await terminal.printBytes(chunk))) break;
    }
    return { name, contentType, file: null, bytes: sent, sha256: hash.digest('hex') };
  };
}
