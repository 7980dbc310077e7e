import { emailAction } from '../../../src/action/kinds/email.ts';
import type { EmailOptions } from '../../../src/action/kinds/email-options.ts';
import { ACCOUNT } from './mail-server.ts';

export interface Notice {
  to: string[];
  subject: string;
  text: string;
}

/** The options of a message to customers; certificates of test servers are their own. */
export function noticeOptions(port: number, more: Partial<EmailOptions<Notice>> = {}): EmailOptions<Notice> {
  return {
    smtp: () => ({ host: '127.0.0.1', port, auth: ACCOUNT, tls: { rejectUnauthorized: false } }),
    message: ({ to, subject, text }) => ({ from: 'Night Desk <desk@sender.example>', to, subject, text }),
    rollback: {
      kind: 'compensating',
      plan: 'a correction to all who got it',
      correction: ({ args }) => ({
        from: 'desk@sender.example',
        to: args.to,
        subject: 'Correction',
        text: 'Please ignore it.',
      }),
    },
    ...more,
  };
}

export function noticeAction(port: number, more: Partial<EmailOptions<Notice>> = {}) {
  return emailAction(noticeOptions(port, more));
}
