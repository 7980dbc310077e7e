import type { PageStatus } from './faults.ts';
import { PAGE_TYPE, type Reply } from './reply.ts';

const TITLES: Record<PageStatus, string> = {
  200: 'Please sign in to this network',
  502: '502 Bad Gateway',
  503: '503 Service Unavailable',
  504: '504 Gateway Time-out',
};

/** The page that a proxy between client and provider sends in the provider's place. */
export function proxyPage(status: PageStatus): Reply {
  const title = TITLES[status];
  const html = `<!doctype html>\n<html><head><title>${title}</title></head><body><h1>${title}</h1></body></html>\n`;
  return { status, contentType: PAGE_TYPE, body: Buffer.from(html) };
}
