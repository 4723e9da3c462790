"""Does `marless plan` keep deadlines on accounts with waits that it has not seen?"""
