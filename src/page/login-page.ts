import { html } from '@remix-run/html-template';
import { page, type PageWorld } from './layout.ts';

/** Asks for the token. `problem`: what was wrong with the one before. */
export function loginPage(root: string, problem: string | null, world: PageWorld): string {
  const main = html`<h1>Log in</h1>
    <form class="login" method="post" action="${root}login">
      ${problem === null ? '' : html`<p class="notice failed" role="alert">${problem}</p>`}
      <label for="token">Token</label>
      <input
        id="token"
        name="token"
        type="password"
        autocomplete="current-password"
        required
        aria-describedby="which"
      />
      <p id="which" class="faint">
        <code>http.token</code> of the config, or one of <code>http.tokens</code>
      </p>
      <button>Log in</button>
    </form>`;
  return page({ title: 'Log in', root, main, isLive: false }, outsideOf(world));
}

/** Says how to open the pages. */
export function closedPage(root: string, world: PageWorld): string {
  const main = html`<h1>The pages are closed</h1>
    <p>
      This server can be reached from other machines, and the config has no <code>http.token</code>. Set one
      (16 characters or more) and start it again, or let it listen on this machine alone:
      <code>--http 127.0.0.1:9400</code>.
    </p>`;
  return page({ title: 'Closed', root, main, isLive: false }, outsideOf(world));
}

/** Who is not logged in yet learns nothing of the config. */
function outsideOf(world: PageWorld): PageWorld {
  return { ...world, config: null, visitor: null };
}
