import { openTokenCheck, tokensOf } from '../monitor/check-token.ts';
import type { ListenAddress } from '../monitor/listen-address.ts';
import {
  isLoopback,
  openHttpServer,
  type HttpServerOptions,
  type ServedContent,
} from '../monitor/open-http-server.ts';
import { openPageAccess, openSessions, type Sessions } from '../monitor/page-access.ts';
import type { SettingsWith } from '../settings/settings.ts';
import { servedPages, type PageOptions } from './page-routes.ts';

interface UiOptions extends PageOptions, Pick<HttpServerOptions, 'log' | 'limits'> {
  readonly settings: SettingsWith<'http'>;
  readonly listen: ListenAddress;
  /** What people are to know, on every page; null: nothing. */
  readonly problem?: () => string | null;
}

/** The pages alone, without a worker. As `openHttpServer`; `show` serves those of another reading of the config. */
export async function startUi(options: UiOptions) {
  const { listen, log, limits = {} } = options;
  // Who is logged in stays so.
  const sessions = openSessions();
  const server = await openHttpServer({ listen, log, limits }, servedContent(options, sessions));
  return {
    url: server.url,
    show: (settings: SettingsWith<'http'>): Promise<void> =>
      server.replace(servedContent({ ...options, settings }, sessions)),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

function servedContent(options: UiOptions, sessions: Sessions): ServedContent {
  const { listen, log, clock, settings, problem = () => null } = options;
  const tokens = tokensOf(settings.http);
  const pages = servedPages(options);
  return {
    hosts: settings.http.hosts,
    formRoutes: pages.formRoutes,
    routes: (server, { wrongTriesMs, ...limits }) => {
      const checkToken =
        tokens.length === 0 ? null : openTokenCheck({ tokens, clock, wrongTriesMs, ...limits });
      const access = openPageAccess({ checkToken, sessions, isLoopback: isLoopback(listen), clock });
      pages.add(server, { access, retryAfterMs: wrongTriesMs, links: [], problem, log });
    },
  };
}
