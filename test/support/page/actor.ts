import type { Answer, RawRequest } from '../monitor/served-monitor.ts';

interface Served {
  get(path: string, request?: RawRequest): Promise<Answer>;
}

interface Asked {
  readonly status: number;
  /** What a person reads, on one line. */
  readonly text: string;
  readonly headers: Readonly<Record<string, string>>;
  /** What the form of the page sends, with these fields besides. */
  readonly body: (fields: Readonly<Record<string, string>>) => string;
  readonly address: string;
}

export type Actor = Awaited<ReturnType<typeof openActor>>;

/** A browser without script that has logged in with a token. */
export async function openActor(served: Served, token: string) {
  const form = { 'content-type': 'application/x-www-form-urlencoded', 'sec-fetch-site': 'same-origin' };
  const login = await served.get('/login', {
    method: 'POST',
    headers: form,
    body: new URLSearchParams({ token }).toString(),
  });
  const [cookie = ''] = (login.headers['set-cookie']?.[0] ?? '').split(';');
  const headers = { ...form, cookie };
  const asked = (address: string, { status, body: page }: Answer): Asked => {
    const hidden = [...page.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)].map(
      ([, name = '', value = '']) => [name, value] as const,
    );
    const text = page
      .replace(/<[^>]*>/g, ' ')
      .replace(/\s+/g, ' ')
      .replaceAll('&quot;', '"');
    const body: Asked['body'] = (fields) =>
      new URLSearchParams({ ...Object.fromEntries(hidden), ...fields }).toString();
    return { status, text, headers, body, address };
  };
  return {
    cookie,
    headers,
    read: async (address: string): Promise<string> => (await served.get(address, { headers })).body,
    /** The page that says what would happen. */
    ask: async (address: string): Promise<Asked> => asked(address, await served.get(address, { headers })),
    /** Sends the form, and follows to the page that it leads back to; its address is then the one of that page. */
    confirm: async ({ address, body }: Asked, fields: Readonly<Record<string, string>> = {}) => {
      const sent = await served.get(address, { method: 'POST', headers, body: body(fields) });
      const [to] = [sent.headers['location']].flat();
      if (sent.status !== 303 || to === undefined) return asked(address, sent);
      const { pathname, search } = new URL(to, `http://here${address}`);
      return asked(`${pathname}${search}`, await served.get(`${pathname}${search}`, { headers }));
    },
    /** Presses a button that asks nothing. */
    press: async (address: string, on = '/') => {
      const page = asked(address, await served.get(on, { headers }));
      const body = page.body({});
      const sent = await served.get(address, { method: 'POST', headers, body });
      const [to = ''] = [sent.headers['location']].flat();
      const { pathname, search } = new URL(to, `http://here${address}`);
      return asked(`${pathname}${search}`, await served.get(`${pathname}${search}`, { headers }));
    },
  };
}
