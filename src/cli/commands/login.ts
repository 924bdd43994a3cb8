import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { nameAccount, signIn, signOut, type SignedOut } from '../../app/sign-in.ts';
import { usage } from '../../core/errors.ts';
import { checkRedirect } from '../../settings/texts.ts';
import { connectorNamed } from '../../settings/choices.ts';
import type { IssuedTokens } from '../../sign-ins/sign-in-store.ts';
import { printable } from '../../telemetry/format.ts';
import { awaitRedirect, type Authorization } from '../../upstream/authorization.ts';
import { command, type CommandContext } from '../command.ts';
import { openPatientApp } from '../output/show-run.ts';

const longestMs = 600_000;

export const login = command({
  argument: ['<connector>', 'a connector whose credentials are those of an OAuth app'],
  options: {
    '--no-browser': 'print the address only; the person pastes the address that the browser was sent back to',
    '--device': 'enter a code on another device, where the service has that',
    '--redirect <address>':
      'where the browser is sent back to, as the app is registered with it (default: redirect of signIns in the config, or a free port of 127.0.0.1)',
  },
  help: `
Tokens are stored beside the sink of the connector, renewed by whichever process needs them, and never printed.

Examples:
  $ connector-sync login crm
  $ connector-sync login crm --redirect http://localhost:8400/callback
  $ connector-sync login crm --no-browser`,
  run: async (context, { browser, device, redirect }, name) => {
    const settings = await context.settings('access');
    const { clock, terminal, signal } = context;
    const connector = connectorNamed(settings, name);
    const checked = checkRedirect(redirect ?? settings.signIns.redirect);
    if (!checked.ok) throw usage(`--redirect: ${checked.why}.`);
    const within = AbortSignal.any([signal, timeUp()]);
    const wanted = new URL(checked.value);
    const ask = async (authorization: Authorization): Promise<IssuedTokens> => {
      if (device) return await byDevice(context, authorization, within);
      return browser && wanted.protocol === 'http:'
        ? await byBrowser(context, authorization, wanted, within)
        : await byPasting(context, authorization, checked.value, within);
    };
    await signIn({ settings, connector, clock }, ask, signal);
    await using app = await openPatientApp(context, settings, 'login');
    await using source = await app.openSource(connector, signal);
    await source.connect(signal);
    const account = source.accountName();
    if (account !== null) await nameAccount({ connector, clock }, account);
    terminal.print(`${name} is signed in${account === null ? '' : ` (account ${printable(account)})`}.`);
    terminal.printJson({ connector: name, signedIn: true, account });
  },
});

export const logout = command({
  argument: ['<connector>', 'a connector that is signed in'],
  help: '\nForgets the stored tokens, and gives them back to the service where its definition says how.',
  run: async (context, _flags, name) => {
    const settings = await context.settings('access');
    const { clock, terminal, signal } = context;
    const ended = await signOut({ settings, connector: connectorNamed(settings, name), clock }, signal);
    terminal.printJson({ connector: name, signedIn: false, tokens: ended.kind });
    if (ended.kind === 'failed') terminal.note(`The tokens could not be revoked: ${ended.why}.`);
    terminal.print(`${name} ${endings[ended.kind]}`);
  },
});

const endings: Readonly<Record<SignedOut['kind'], string>> = {
  none: 'was not signed in.',
  revoked: 'is signed out: its tokens are revoked.',
  removed: 'is signed out: its tokens are removed here; end its access at the service too.',
  failed: 'is signed out: its tokens are removed here; end its access at the service too.',
};

function timeUp(): AbortSignal {
  const late = new AbortController();
  const why = usage(`No answer came within ${longestMs / 60_000} minutes. Start the sign-in again.`);
  setTimeout(() => late.abort(why), longestMs).unref();
  return late.signal;
}

async function byBrowser(
  { terminal, env }: CommandContext,
  authorization: Authorization,
  wanted: URL,
  signal: AbortSignal,
): Promise<IssuedTokens> {
  await using awaited = await awaitRedirect(wanted).catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') {
      throw usage(
        `Port ${wanted.port} of ${wanted.host} is in use. End what uses it, or name another --redirect.`,
      );
    }
    throw error;
  });
  const attempt = authorization.code(awaited.redirect);
  terminal.noteAddress('Open this address in a browser of this machine, and agree:', attempt.url.href);
  terminal.note('Waiting for the browser. On a machine without one, use --no-browser.');
  if (terminal.columns() !== null) openBrowser(attempt.url, env);
  return await attempt.finish(await awaited.code(attempt.codeIn, signal));
}

async function byPasting(
  context: CommandContext,
  authorization: Authorization,
  redirect: string,
  signal: AbortSignal,
): Promise<IssuedTokens> {
  const attempt = authorization.code(redirect);
  context.terminal.noteAddress('Open this address in any browser, and agree:', attempt.url.href);
  context.terminal.note(
    `The browser is then sent to ${redirect}, a page that need not load. Paste its whole address here:`,
  );
  const text = await readLine(context, signal);
  const query = URL.canParse(text) ? new URL(text).searchParams : null;
  const code = query === null ? null : attempt.codeIn(query);
  if (code !== null) return await attempt.finish(code);
  throw usage(
    'Expected the whole address that the browser was sent to by this sign-in, with code and state in it, got another text. Start the sign-in again.',
  );
}

async function byDevice(context: CommandContext, authorization: Authorization, signal: AbortSignal) {
  if (authorization.device === null) {
    throw usage('The definition names no deviceUrl: the service has no such way. Leave --device out.');
  }
  const attempt = await authorization.device(signal);
  context.terminal.noteAddress(
    `Open this address on any device, and enter ${printable(attempt.userCode)}:`,
    attempt.url,
  );
  context.terminal.note('Waiting until that is done.');
  return await attempt.finish(signal);
}

/** The programs that open an address, where that is not `xdg-open`. */
const openers: Partial<Record<NodeJS.Platform, readonly string[]>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};

/** Opens a browser, if the machine has one; the address is printed in any case. */
function openBrowser(url: URL, env: CommandContext['env']): void {
  const [program = 'xdg-open', ...args] = openers[process.platform] ?? [];
  const child = spawn(program, [...args, url.href], { stdio: 'ignore', detached: true, env: { ...env } });
  child.on('error', () => undefined);
  child.unref();
}

async function readLine({ input }: CommandContext, signal: AbortSignal): Promise<string> {
  const lines = createInterface({ input: Readable.from(input()), signal });
  try {
    for await (const line of lines) return line.trim();
    return '';
  } finally {
    signal.throwIfAborted();
    lines.close();
  }
}
